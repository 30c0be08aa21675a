// The list of weight formats. A new format is one header in formats/ and its line in `Formats`.
#pragma once

#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/iq4_xs.h"
#include "quant/formats/mxfp4.h"
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
  static constexpr void for_each(Visit&& visit) {
    (visit.template operator()<F>(), ...);
  }
  static constexpr int kCount = sizeof...(F);
};

// clang-format off: one a line
using Formats =
    FormatList<F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4>;
// clang-format on

}  // namespace pagoda::quant
