// The stages' candidates on CUDA. Activations between stages are bf16, the residual stream and logits float. Within a
// stage x of a product behind a norm is f16 where the product takes that.
#pragma once

#include "kernels/stages/attention_in.h"
#include "kernels/stages/ffn_in.h"
#include "kernels/stages/head.h"
#include "kernels/stages/sublayer_out.h"

namespace pagoda::kernels {

extern const AttentionInKernel kCudaAttentionIn;
extern const SublayerOutKernel kCudaSublayerOut;
extern const FfnInKernel kCudaFfnIn;
extern const HeadKernel kCudaHead;

/// Of HeadArgs::hidden: kBf16 or kF16.
tensor::DType cuda_head_input(const HeadProblem& problem, const device::DeviceCaps& caps);

}  // namespace pagoda::kernels
