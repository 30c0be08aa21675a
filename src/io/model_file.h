#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/byte_source.h"
#include "io/raw_config.h"
#include "io/tensor_catalog.h"

namespace pagoda::io {

/// An opened model: its configuration, the list of its tensors, and access to their bytes. Knows no model family.
/// Tensor bytes are read from the file when asked for; nothing is mapped or kept.
class ModelFile {
 public:
  /// `files[entry.file_index]` holds the bytes of `entry`. `folder`: where the model's other files lie, for one that is
  /// a directory.
  ModelFile(std::string container, RawConfig config, TensorCatalog tensors,
            std::vector<std::unique_ptr<ByteSource>> files, std::string folder = {});

  const std::string& path() const { return folder_.empty() ? config_.source() : folder_; }
  /// Of a directory (tokenizer.json and the like are in it); empty for a single file.
  const std::string& folder() const { return folder_; }
  /// The kind of file, for people: "GGUF version 3".
  const std::string& container() const { return container_; }
  /// Of all files with tensors.
  std::uint64_t file_bytes() const;
  const RawConfig& config() const { return config_; }
  const TensorCatalog& tensors() const { return tensors_; }
  /// The same files under another list of what lies in them.
  void set_tensors(TensorCatalog tensors) { tensors_ = std::move(tensors); }

  /// Rows `first_row` to `first_row + num_rows - 1` of a tensor of this catalog, as the file has them; `into` has just
  /// `format->row_bytes(cols) * num_rows` bytes. May be called from several threads at once.
  /// Errors: kFileUnreadable, kFileChanged.
  Status read_rows(const TensorEntry& entry, std::int64_t first_row, std::int64_t num_rows,
                   std::span<std::byte> into) const;
  /// The same as values, with the columns where the weight has them, whatever TensorEntry::column_order says; `into`
  /// has cols · num_rows of them.
  Status read_values(const TensorEntry& entry, std::int64_t first_row, std::int64_t num_rows,
                     std::span<float> into) const;
  /// Any bytes of a tensor: `begin` counts from its first one.
  Status read_bytes(const TensorEntry& entry, std::uint64_t begin, std::span<std::byte> into) const;

 private:
  std::string container_;
  RawConfig config_;
  TensorCatalog tensors_;
  std::vector<std::unique_ptr<ByteSource>> files_;
  std::string folder_;
};

/// Opens the model at `path`: a GGUF file, or a directory as Hugging Face's libraries write them (model_folder.h).
/// Everything else (a missing path, an empty file, a text file, a checkpoint of another kind) is refused with one
/// sentence that says what is there: kFileNotFound, kFileEmpty, kFileUnreadable, kNotAModel, or one of the kGguf,
/// kJson, kSafetensors and kShard codes.
Result<ModelFile> open_model(const std::string& path);

/// The same for bytes in memory (tests).
Result<ModelFile> open_gguf(std::unique_ptr<ByteSource> source);

}  // namespace pagoda::io
