// Attention on CUDA: the decode kernel for rows of one token, the prefill kernel for longer ones, in one launch of the
// stage. What all layers of a cache group share is made once a step, on the device, by `attention_schedule`.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/cuda_decode.h"
#include "kernels/attention/cuda_prefill.h"

namespace pagoda::kernels {

extern const AttentionKernel kCudaAttention;
/// One kernel for all even head dims up to kAnyDimsMost, and any rows; needs no work list.
extern const AttentionKernel kCudaAttentionAnyDims;

/// Bytes of GroupInputs::work for a problem; 0 on hosts, and where kCudaAttention does not take the problem.
std::size_t attention_work_bytes(const AttentionProblem& problem, const device::DeviceCaps& caps);

struct AttentionScheduleArgs {
  StepInputs step;
  GroupInputs group;
};
using AttentionScheduleStep = Step<AttentionScheduleArgs>;

/// Fills GroupInputs::work from the step's rows; it serves all layers whose problems have the same heads, window and
/// layout. Nothing to do on hosts. `work` is zeroed here, once.
Result<AttentionScheduleStep> prepare_attention_schedule(const AttentionProblem& problem, std::byte* work,
                                                         device::Device& device);

/// How many tokens a PrefillItem of the problem may have. A deterministic problem has items for rows of one token too:
/// the prefill kernel adds keys in tiles at absolute positions, whatever else its block works on.
std::int64_t prefill_item_tokens(const AttentionProblem& problem, const device::DeviceCaps& caps);

}  // namespace pagoda::kernels
