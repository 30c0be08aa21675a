// The list of weight formats. A new format is one header in formats/ and its line in `Formats`. Shared with kernel
// sources.
#pragma once

#include "quant/formats/affine.h"
#include "quant/formats/bf16.h"
#include "quant/formats/bnb4.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"
#include "quant/formats/fp8.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/mxfp8.h"
#include "quant/formats/nvfp4.h"
#include "quant/formats/packed.h"
#include "quant/formats/q2_k.h"
#include "quant/formats/q3_k.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q4_k.h"
#include "quant/formats/q5_0.h"
#include "quant/formats/q5_1.h"
#include "quant/formats/q5_k.h"
#include "quant/formats/q6_k.h"
#include "quant/formats/q8_0.h"

namespace pagoda::quant {

template <class... F>
struct FormatList {
  /// Calls `visit.template operator()<Format>()` for each format in turn.
  template <class Visit>
  static PAGODA_SHARED constexpr void for_each(Visit&& visit) {
    (visit.template operator()<F>(), ...);
  }
  static constexpr int kCount = sizeof...(F);
};

// clang-format off: a kind a line
using Formats = FormatList<F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS,
                           MXFP4, MXFP8, NVFP4, FP8_E4M3, FP8_E4M3_G32, FP8_E5M2, FP8_E5M2_G32, AFFINE2_G32,
                           AFFINE2_G64, AFFINE2_G128, AFFINE3_G32, AFFINE3_G64, AFFINE3_G128, AFFINE4_G32, AFFINE4_G64,
                           AFFINE4_G128, AFFINE5_G32, AFFINE5_G64, AFFINE5_G128, AFFINE6_G32, AFFINE6_G64, AFFINE6_G128,
                           AFFINE8_G32, AFFINE8_G64, AFFINE8_G128, AFFINE4_G32_F16, AFFINE4_G64_F16, AFFINE4_G128_F16,
                           AFFINE8_G32_F16, AFFINE8_G64_F16, AFFINE8_G128_F16, PACKED2_G128, PACKED3_G128, PACKED4_G32,
                           PACKED4_G64, PACKED4_G128, PACKED8_G32, PACKED8_G64, PACKED8_G128, BNB_NF4, BNB_FP4>;
// clang-format on

}  // namespace pagoda::quant
