// Stage: residual stream → norm → q, k, v products → head norms, RoPE → keys and values into the cache pages.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/candidate.h"
#include "kernels/kv_store/kv_store.h"
#include "kernels/linear/linear.h"
#include "kernels/qkv_postprocess/qkv_postprocess.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/stages/residual_update.h"
#include "kernels/step.h"

namespace pagoda::kernels {

struct AttentionInProblem {
  bool has_norm = true;   ///< false: norms come after the sublayers only
  RmsNormProblem norm;    ///< its hidden and activation hold in any case
  LinearProblem product;  ///< three weights: query, key, value; layouts filled in; max_m is the most tokens of a step
  QkvPostprocessProblem post;
  KvLayout layout;
};

struct AttentionInWeights {
  RmsNormWeights norm;
  std::array<LinearWeight, 3> product;
  QkvPostprocessWeights post;
};

struct AttentionInArgs {
  tensor::MatrixView residual;  ///< (tokens, hidden), read; written where an update is owed
  tensor::MatrixView query;     ///< (tokens, num_heads · key_dim), written
  StepInputs step;
  GroupInputs group;
  KvPages pages;
  std::byte* scratch = nullptr;      ///< scratch_bytes, aligned to 64
  ResidualUpdate* update = nullptr;  ///< what the stage before owes `residual`: settled here
};

using AttentionInStep = Step<AttentionInArgs>;
using AttentionInKernel = Candidate<AttentionInProblem, AttentionInWeights, AttentionInArgs>;

/// In order of preference; the last is the chain of the elementary operations, each chosen by itself.
std::span<const AttentionInKernel> attention_in_kernels();

}  // namespace pagoda::kernels
