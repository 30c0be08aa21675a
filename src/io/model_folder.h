// A model as Hugging Face's libraries keep it: a directory with config.json, and its tensors in model.safetensors or in
// the shards that model.safetensors.index.json names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/byte_source.h"
#include "io/model_file.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// Opens the directory at `path`. Its tokenizer, templates and sampling settings stay where they are:
/// ModelFile::folder. Errors: kNotAModel with what is there; kJson…, kSafetensors…, kShard…; kFileEmpty,
/// kFileUnreadable, kFileChanged.
Result<ModelFile> open_model_folder(const std::string& path);

/// What the index of a sharded model says: which file holds which tensor.
struct ShardIndex {
  std::vector<std::string> files;                            ///< each once, sorted
  std::vector<std::pair<std::string, std::size_t>> tensors;  ///< name and index of `files`, sorted by name
};

/// Reads the text of an index; `source` names it. Errors: kJson…, kShardIndex, kShardName.
Result<ShardIndex> parse_shard_index(const std::string& source, std::string_view text);

/// The tensors of all shards together, against what the index says; `files` are those of the index, in its order.
/// Errors: those of read_safetensors; kShardTensorMissing, kShardTensorUnlisted.
Result<TensorCatalog> read_shards(const std::string& source, const ShardIndex& index,
                                  const std::vector<std::unique_ptr<ByteSource>>& files);

}  // namespace pagoda::io
