// RoPE as a config.json states it: in `rope_parameters` (flat, or one object for each type of layer), or in
// `rope_theta` with `rope_scaling`. Source: modeling_rope_utils.py of Hugging Face transformers.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "kernels/qkv_postprocess/rope.h"
#include "model/config_reader.h"

namespace pagoda::model {

/// Where the configuration says it.
struct HfRopeKeys {
  std::string object;       ///< "rope_scaling", "rope_parameters.full_attention"; empty: nowhere, so the default kind
  std::string outer_theta;  ///< a key outside of the object, for a base that the object does not give
  double default_theta = 10000;
};

struct HfRope {
  kernels::RopeSpec spec;
  /// Positions up to which the frequencies do not depend on a sequence's length: `dynamic` and `longrope` change all of
  /// them when a sequence grows longer, so that they are served up to there alone.
  std::int64_t context = 0;
};

/// The object that a model without types of layers uses. Error: kConfigRange if RoPE is stated twice.
Result<HfRopeKeys> find_hf_rope(const ConfigReader& config);

/// Kinds default, linear, dynamic, llama3, yarn, longrope, by `rope_type` or `type`. Errors: kConfigMissing,
/// kConfigType, kConfigRange.
Result<HfRope> read_hf_rope(const ConfigReader& config, const HfRopeKeys& keys, std::int64_t head_dim,
                            std::int64_t context);

}  // namespace pagoda::model
