#pragma once

#include <cstdint>

#include "device/stream.h"

namespace pagoda::kernels {

struct QkvPostprocessParams {
  float* query;
  float* key;
  float* value;
  const std::int64_t* positions;
  const float* query_norm;  // null: no norm of query and key
  const float* key_norm;
  const double* rope_low;  // RopeTable's
  const double* rope_high;
  std::int64_t query_stride, key_stride, value_stride;
  std::int64_t num_heads, num_kv_heads, key_dim, value_dim;
  std::int64_t rope_step, num_pairs, pair_distance;  // num_pairs 0: no rotation; distance of a pair when half-split
  float epsilon, weight_shift;
  bool interleaved, value_norm;
};

/// Units are tokens.
void qkv_postprocess_portable(const QkvPostprocessParams& params, device::HostRange range);
void qkv_postprocess_avx2(const QkvPostprocessParams& params, device::HostRange range);
void qkv_postprocess_avx512(const QkvPostprocessParams& params, device::HostRange range);

}  // namespace pagoda::kernels
