// Stage: residual stream → norm → gate and up products → gated activation.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/candidate.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/stages/residual_update.h"

namespace pagoda::kernels {

struct FfnInProblem {
  bool has_norm = true;   ///< false: norms come after the sublayers only
  RmsNormProblem norm;    ///< its hidden and activation hold in any case
  LinearProblem product;  ///< two weights: gate, up; layouts filled in
  GatedActivationProblem activation;
};

struct FfnInWeights {
  RmsNormWeights norm;
  std::array<LinearWeight, 2> product;
};

struct FfnInArgs {
  tensor::MatrixView residual;       ///< (tokens, hidden), read; written where an update is owed
  tensor::MatrixView output;         ///< (tokens, width), written
  std::byte* scratch = nullptr;      ///< scratch_bytes, aligned to 64
  ResidualUpdate* update = nullptr;  ///< what the stage before owes `residual`: settled here
};

using FfnInStep = Step<FfnInArgs>;
using FfnInKernel = Candidate<FfnInProblem, FfnInWeights, FfnInArgs>;

/// In order of preference; the last is the chain of the elementary operations.
std::span<const FfnInKernel> ffn_in_kernels();

}  // namespace pagoda::kernels
