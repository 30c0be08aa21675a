// The tensors in which a Hugging Face directory keeps one weight.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "api/quantize_jobs.h"
#include "base/output.h"
#include "io/safetensors_writer.h"

namespace pagoda::api {

/// One tensor and its bytes for a range of rows of the weight.
struct TensorPart {
  io::NewSafetensor tensor;
  /// Puts the bytes of rows [first, first + count), whose blocks are given, in order into `out`, and says where they
  /// begin in the tensor.
  std::function<std::uint64_t(std::int64_t first, std::int64_t count, std::span<const std::byte> blocks,
                              std::vector<std::byte>& out)>
      bytes_of;
  /// It belongs to the weight as a whole, and a reader of the header asks for it: written ahead, as for rows [0, 0),
  /// too.
  bool whole = false;
};

/// Whether rows of that length can be kept so.
bool fits_folder(const QuantizeTarget& target, std::int64_t cols);

/// Chooses the job's encoder, and says which tensors its weight, "….weight", becomes.
std::vector<TensorPart> folder_parts(const QuantizeTarget& target, TensorJob& job);

}  // namespace pagoda::api
