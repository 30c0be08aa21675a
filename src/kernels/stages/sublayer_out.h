// Stages attention_out and ffn_out: residual += scale · N(W · input), N an optional norm of the sublayer's output.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/candidate.h"
#include "kernels/linear/linear.h"
#include "kernels/residual/residual.h"
#include "kernels/stages/residual_update.h"

namespace pagoda::kernels {

struct SublayerOutProblem {
  LinearProblem product;  ///< one weight; layout filled in
  ResidualProblem residual;
};

struct SublayerOutWeights {
  LinearWeight product;
  ResidualWeights residual;
};

struct SublayerOutArgs {
  tensor::MatrixView input;          ///< (tokens, k): attention's output or the feed-forward's activations
  tensor::MatrixView residual;       ///< (tokens, hidden), read and written
  std::byte* scratch = nullptr;      ///< scratch_bytes, aligned to 64
  ResidualUpdate* update = nullptr;  ///< null, or owes nothing: where the stage may leave its sum for the next one
};

using SublayerOutStep = Step<SublayerOutArgs>;
using SublayerOutKernel = Candidate<SublayerOutProblem, SublayerOutWeights, SublayerOutArgs>;

/// Bytes of ResidualUpdate::memory that such a stage may use; 0 on hosts.
std::size_t residual_update_bytes(const SublayerOutProblem& problem, const device::DeviceCaps& caps);

/// Each in order of preference; the last is the chain of the elementary operations.
std::span<const SublayerOutKernel> attention_out_kernels();
std::span<const SublayerOutKernel> ffn_out_kernels();

}  // namespace pagoda::kernels
