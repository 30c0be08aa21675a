// Stages attention_out and ffn_out: residual += scale · N(W · input), N an optional norm of the sublayer's output.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/candidate.h"
#include "kernels/linear/linear.h"
#include "kernels/residual/residual.h"

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
  tensor::MatrixView input;      ///< (tokens, k): attention's output or the feed-forward's activations
  tensor::MatrixView residual;   ///< (tokens, hidden), read and written
  std::byte* scratch = nullptr;  ///< scratch_bytes, aligned to 64
};

using SublayerOutStep = Step<SublayerOutArgs>;
using SublayerOutKernel = Candidate<SublayerOutProblem, SublayerOutWeights, SublayerOutArgs>;

/// Each in order of preference; the last is the chain of the elementary operations.
std::span<const SublayerOutKernel> attention_out_kernels();
std::span<const SublayerOutKernel> ffn_out_kernels();

}  // namespace pagoda::kernels
