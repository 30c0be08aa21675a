// What the contracts of all operations share: the name of an arithmetic, the precision asked for, a unit to compile.
#pragma once

#include <cstdint>
#include <string_view>

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

/// A piece of device code that a plan needs compiled. Host candidates need none; a CUDA unit will name its source,
/// its constants and its architecture here.
struct CompileUnit {};

}  // namespace pagoda::kernels
