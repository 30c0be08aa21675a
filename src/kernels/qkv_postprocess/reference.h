#pragma once

#include "kernels/qkv_postprocess/qkv_postprocess.h"

namespace pagoda::kernels {

Result<QkvPostprocessStep> prepare_qkv_postprocess_reference(const QkvPostprocessProblem& problem,
                                                             const QkvPostprocessWeights& weights,
                                                             device::Device& device);

}  // namespace pagoda::kernels
