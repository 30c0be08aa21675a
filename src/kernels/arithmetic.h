// What the contracts of all operations share: the name of an arithmetic, the precision asked for, units to compile.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/compile_unit.h"

namespace pagoda::kernels {

/// Names one way to compute, down to the order of every rounding. Two candidates with equal tags give equal bits for
/// the same row of the same problem, at every number of rows; tests run all such pairs against each other.
struct Arithmetic {
  std::string_view name;
  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

enum class Precision : std::uint8_t {
  kStandard,  ///< activations in 8 bits with a scale for each 32 of them
  kHigh,      ///< activations in 16 bits or more
  kExact,     ///< the reference: double throughout
};

constexpr std::string_view to_string(Precision precision) {
  constexpr std::string_view names[] = {"standard", "high", "exact"};
  return names[static_cast<std::uint8_t>(precision)];
}

using device::CompileUnit;  ///< what a plan needs compiled; host candidates need none

}  // namespace pagoda::kernels
