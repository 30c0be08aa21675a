// Causal attention of each token over its sequence's cache pages, its own key included:
//   s_j = cap(scale · q·k_j),  o = Σ_j e^(s_j - m) v_j / (Σ_j e^(s_j - m) + [sinks] e^(sink - m))
// for the keys j that the query at key number p sees: p - window < j ≤ p, or all j ≤ p without a window;
// cap(s) = softcap · tanh(s / softcap). Query head h reads kv head h / (num_heads / kv_heads).
// Keys and values are read from pages only. Masked or unwritten slots contribute exactly nothing, whatever they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/candidate.h"
#include "kernels/kv_store/kv_layout.h"
#include "kernels/step.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct AttentionProblem {
  tensor::DType activation = tensor::DType::kF32;
  Precision precision = Precision::kStandard;
  KvLayout layout;
  std::int64_t num_heads = 0;  ///< a multiple of layout.kv_heads
  double scale = 1;
  std::int64_t window = 0;  ///< keys seen, the query's own among them; 0: all
  double softcap = 0;       ///< 0: none
  bool sinks = false;
  std::int64_t max_rows = 0;  ///< bounds of the steps this will run, for scratch
  std::int64_t max_context = 0;
  std::int64_t workers = 1;    ///< threads of the host's pool
  bool deterministic = false;  ///< GPUs: a token's bits must not depend on the rows of its step. Hosts are always so
  bool any_size = false;       ///< GPUs: no kernel that is compiled for these sizes
};

struct AttentionWeights {
  const float* sinks = nullptr;  ///< (num_heads) logits; with `sinks` only
};

struct AttentionArgs {
  tensor::MatrixView query;   ///< (tokens, num_heads · key_dim)
  tensor::MatrixView output;  ///< (tokens, num_heads · value_dim); padding tokens become zeros
  StepInputs step;
  GroupInputs group;
  KvPages pages;
  std::byte* scratch = nullptr;  ///< scratch_bytes, aligned to 64
};

using AttentionStep = Step<AttentionArgs>;
using AttentionKernel = Candidate<AttentionProblem, AttentionWeights, AttentionArgs>;

std::span<const AttentionKernel> attention_kernels();

}  // namespace pagoda::kernels
