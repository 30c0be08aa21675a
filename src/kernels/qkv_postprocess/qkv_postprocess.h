// What happens to q, k and v between their products and the cache, in place, token by token:
//   RMS norm of each head (query and key with weights; value without, mode kAll), then RoPE of query and key.
// Biases belong to the products (linear.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/candidate.h"
#include "kernels/qkv_postprocess/rope.h"
#include "kernels/step.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

enum class QkvNorm : std::uint8_t { kNone, kQueryKey, kAll };

struct QkvPostprocessProblem {
  tensor::DType activation = tensor::DType::kF32;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t key_dim = 0;  ///< of queries too
  std::int64_t value_dim = 0;
  QkvNorm norm = QkvNorm::kNone;
  double epsilon = 1e-6;
  float weight_shift = 0;
  RopeSpec rope;  ///< its head_dim is key_dim; kNone: no rotation
};

struct QkvPostprocessWeights {
  const float* query_norm = nullptr;      ///< (key_dim)
  const float* key_norm = nullptr;        ///< (key_dim)
  std::shared_ptr<const RopeTable> rope;  ///< of problem.rope, one for all layers that share it; unused by kNone
  const float* rope_rows = nullptr;       ///< the same on a GPU: (positions, num_pairs, 2) cosines and sines
};

struct QkvPostprocessArgs {
  tensor::MatrixView query;                 ///< (tokens, num_heads · key_dim)
  tensor::MatrixView key;                   ///< (tokens, num_kv_heads · key_dim)
  tensor::MatrixView value;                 ///< (tokens, num_kv_heads · value_dim)
  const std::int64_t* positions = nullptr;  ///< (tokens), each below the table's max_positions
};

using QkvPostprocessStep = Step<QkvPostprocessArgs>;
using QkvPostprocessKernel = Candidate<QkvPostprocessProblem, QkvPostprocessWeights, QkvPostprocessArgs>;

std::span<const QkvPostprocessKernel> qkv_postprocess_kernels();

}  // namespace pagoda::kernels
