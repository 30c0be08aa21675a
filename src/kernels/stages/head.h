// Stage: the wanted rows of the residual stream → final norm → logits → softcap · tanh(logit / softcap).
// A launch takes a slice of at most product.max_m wanted rows; the caller loops over slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/candidate.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"

namespace pagoda::kernels {

struct HeadProblem {
  RmsNormProblem norm;
  LinearProblem product;  ///< one weight, (vocab, hidden); layout filled in
  double softcap = 0;     ///< 0: none
  float scale = 1;        ///< of the logits, before the cap
};

struct HeadWeights {
  RmsNormWeights norm;
  LinearWeight product;
};

struct HeadArgs {
  tensor::MatrixView residual;           ///< (tokens, hidden), read
  const std::int64_t* wanted = nullptr;  ///< (num_wanted) rows of `residual`, read when the launch runs
  std::int64_t num_wanted = 0;
  tensor::MatrixView hidden;     ///< (num_wanted, hidden) of hidden_type(), written: the normed rows, in f16 times a
                                 ///< power of two if norm weights are so large that they would not fit otherwise
  tensor::MatrixView logits;     ///< (num_wanted, vocab), written
  std::byte* scratch = nullptr;  ///< scratch_bytes, aligned to 64
};

/// Of HeadArgs::hidden: the norm's activation type, or f16 where a GPU's product takes that.
tensor::DType hidden_type(const HeadProblem& problem, const device::DeviceCaps& caps);

using HeadStep = Step<HeadArgs>;
using HeadKernel = Candidate<HeadProblem, HeadWeights, HeadArgs>;

/// In order of preference; the last is the chain of the elementary operations.
std::span<const HeadKernel> head_kernels();

}  // namespace pagoda::kernels
