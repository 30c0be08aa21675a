#pragma once

#include "kernels/attention/attention.h"

namespace pagoda::kernels {

Result<AttentionStep> prepare_attention_reference(const AttentionProblem& problem, const AttentionWeights& weights,
                                                  device::Device& device);
std::size_t attention_reference_scratch(const AttentionProblem& problem, const device::DeviceCaps& caps);

}  // namespace pagoda::kernels
