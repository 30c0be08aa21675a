// A checkpoint written again in another weight format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/library.h"
#include "pagoda/progress.h"

namespace pagoda {

/// What became of one tensor. Errors are of the values written against those read: their root mean square over the root
/// mean square of the values read, and the largest difference.
struct QuantizedTensor {
  std::string name{};  ///< in the output
  int layer = -1;      ///< -1: of no layer
  std::string from{};  ///< formats, as "bf16"
  std::string to{};
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  double relative_rms = 0;
  double largest_error = 0;
};

struct QuantizeOptions {
  /// "q4_k_m" is llama.cpp's mix by tensor; every other name is one format for all matrices (quantize_formats).
  std::string format{};
  /// Replaces what is at the output's place; a directory only if it is a model.
  bool overwrite = false;
  /// Configuration keys to pass over, as ModelOptions::ignore_keys.
  std::vector<std::string> ignore_keys{};
  ProgressSink progress{};
  /// Asked now and then, on any thread; true ends the work with kCancelled and leaves nothing behind.
  std::function<bool()> cancelled{};
};

/// What was written.
struct Quantized {
  std::string from{};    ///< the input's format as a whole
  std::string format{};  ///< as asked for
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;  ///< of tensors
  double seconds = 0;
  std::vector<QuantizedTensor> tensors{};
};

/// Formats that can be written, by name.
std::vector<std::string> quantize_formats();

/// The one of them that holds the same weights as a format known by this name elsewhere, "packed4_g128" for
/// "gptq4_g128"; empty if there is none.
std::string quantize_format_like(std::string_view name);

/// Writes the model at `in` (a GGUF file or a Hugging Face directory) to `out` in another format, with its
/// configuration, tokenizer and chat template: a GGUF file for GGUF's types, a Hugging Face directory for others. What
/// both have (f32, f16, bf16, mxfp4) becomes a GGUF file if `out` ends in .gguf, else a directory. Matrices get the
/// format; embedding and head stay floats in directories, vectors (norms, biases) everywhere. Codes are rounded to
/// nearest. A matrix whose rows the format cannot hold gets the next larger one that can, and the log says so, as it
/// does for an input that is quantised already. Memory stays at a few MiB a thread. `out` is whole or not there.
/// Errors: those of Model::open for `in`; kInvalidArgument for a format that cannot be written or that none of the
/// model's matrices can have, an output that exists
/// or is the input; kConfigUnknown, with the part's name, for what the output's kind of file cannot say; kConfigRange
/// for a value that the format cannot hold; kIoFailed; kCancelled.
Result<Quantized> quantize(const Library& library, const std::string& in, const std::string& out,
                           const QuantizeOptions& options);

}  // namespace pagoda
