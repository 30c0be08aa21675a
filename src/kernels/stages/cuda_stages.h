// The stages' candidates on CUDA. Activations between stages are bf16, the residual stream and logits float.
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

}  // namespace pagoda::kernels
