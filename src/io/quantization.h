// How a Hugging Face directory says that its weights are quantised: quantization_config, MLX's quantization, and
// ModelOpt's hf_quant_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/module_pattern.h"
#include "io/raw_config.h"

namespace pagoda::io {

enum class QuantMethod : std::uint8_t {
  kNone,
  kGptq,
  kAwq,
  kFp8,  ///< DeepSeek's, Qwen's and Meta's: scales of tensors, channels or blocks
  kCompressedTensors,
  kBitsAndBytes,
  kModelOpt,
  kMxfp4,
  kMlx,
};

/// What holds for some of the weights.
struct QuantScheme {
  std::int64_t bits = 0;
  std::string strategy;    ///< tensor, channel, group, block, tensor_group
  std::int64_t group = 0;  ///< columns with one scale; 0: the whole row
  std::int64_t block_rows = 0, block_cols = 0;
  bool symmetric = true;
  std::string type = "int";  ///< or float
  bool ordered = false;      ///< columns lie in another order than that of their groups: a tensor has to say in which
  bool fp8_input = false;    ///< activations may be rounded to e4m3
  // compressed-tensors: what it holds for.
  std::vector<std::string> targets;  ///< module names and classes
  std::vector<ModulePattern> patterns;
};

struct Quantization {
  QuantMethod method = QuantMethod::kNone;
  std::string prefix;          ///< of its keys, with the dot
  bool zeros_less_one = true;  ///< GPTQ: version 1 keeps zero points less one
  std::vector<QuantScheme> schemes;
  std::string mode = "affine";  ///< MLX's

  /// The one for that module ("model.layers.0.mlp.up_proj"), or null. Errors: ModulePattern::matches'.
  Result<const QuantScheme*> scheme_of(std::string_view module) const;
};

/// Reads what decides about the values of weights, and marks what does not: contracts of activations are permissions,
/// and which modules are quantised is seen by their tensors. Keys that nobody knows stay unread. `folder` is where
/// hf_quant_config.json may lie. Errors: kConfigUnknown for a method, version or packing that is not served, by its
/// name; those of reading.
Result<Quantization> read_quantization(const RawConfig& config, const std::string& folder);

}  // namespace pagoda::io
