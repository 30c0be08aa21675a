// Which tensor of a model is written in which format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/new_tensor.h"
#include "model/family.h"

namespace pagoda::api {

/// How a checkpoint keeps what a format's blocks say.
enum class CheckpointKind : std::uint8_t {
  kGguf,        ///< blocks as they are
  kFloats,      ///< a Hugging Face directory of floats
  kMlx,         ///< weight, scales and biases, as MLX
  kFp8Channel,  ///< compressed-tensors, float-quantized
  kFp8Block,    ///< fp8 with weight_block_size
  kPacked,      ///< compressed-tensors, pack-quantized
  kNvfp4,       ///< compressed-tensors, nvfp4-pack-quantized
};

/// What `--format` asks for.
struct QuantizeTarget {
  std::string_view name;
  const quant::Format* format = nullptr;
  CheckpointKind kind = CheckpointKind::kGguf;
  bool mixed = false;                           ///< some matrices get a larger format, as llama.cpp's _M mixes have it
  std::optional<std::uint32_t> file_type = {};  ///< `general.file_type` of such a GGUF, where one is declared
};

/// Formats that both kinds of checkpoints have become a GGUF file if `out` ends in .gguf, else a directory.
/// Error: kInvalidArgument, with the names that are known.
Result<QuantizeTarget> find_target(const std::string& name, const std::string& out);
std::vector<std::string> target_names();

/// How the rows of queries and keys are moved, so that RoPE pairs neighbours rather than halves of a head, or back.
enum class RowOrder : std::uint8_t { kAsRead, kHalvesToNeighbours, kNeighboursToHalves };

/// One tensor of the output.
struct TensorJob {
  model::BoundTensor source;
  io::NewTensor target;
  RowOrder order = RowOrder::kAsRead;
  std::int64_t head_dim = 0;  ///< of rows that are moved
  float shift = 0;            ///< added to each value
  /// Encodes rows together; empty: each block by itself (quant::find_encoder). `peak` is the tensor's largest
  /// magnitude, if it is wanted.
  std::function<void(const float* values, std::int64_t rows, std::int64_t cols, float peak, std::byte* blocks)>
      encode{};
  std::int64_t row_multiple = 1;  ///< of the rows that are encoded together
  bool wants_peak = false;        ///< the tensor is read twice
  bool fell_back = false;         ///< the format asked for cannot hold its rows

  /// Bytes go over as they are.
  bool verbatim() const {
    return source.entry->format == target.format && order == RowOrder::kAsRead && shift == 0 && !encode;
  }
};

/// The row of the source that becomes row `row` of the output.
std::int64_t source_row(const TensorJob& job, std::int64_t row);

/// Sees to what two kinds of file mean by the same tensor: the order of rows that RoPE pairs, and the 1 that some add
/// to norms. `from` and `to` are what the input and the output are read as. Error: kConfigUnknown for an order that
/// cannot be changed.
Status reconcile(const model::ModelSpec& from, const model::ModelSpec& to, std::vector<TensorJob>& jobs);

/// The format for a weight of a GGUF file. Vectors are f32.
const quant::Format* format_for(const QuantizeTarget& target, const model::ModelSpec& spec,
                                const model::BoundTensor& tensor);

}  // namespace pagoda::api
