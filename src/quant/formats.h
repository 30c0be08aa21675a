// The list of weight formats. A new format is one header in formats/ and its line in `Formats`.
#pragma once

#include "quant/formats/f32.h"
#include "quant/formats/q4_1.h"

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

using Formats = FormatList<F32, Q4_1>;

}  // namespace pagoda::quant
