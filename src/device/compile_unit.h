// A piece of device code that has to be compiled: plain data, so that plans list what they need on any machine.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::device {

/// One translation unit: a source, the constants it is compiled with, and the architecture.
struct CompileUnit {
  std::string source;                ///< its name among the embedded sources: "kernels/linear/cuda_gemv.cu"
  std::vector<std::string> defines;  ///< "HEAD_DIM=128": only what sizes registers, tiles or unrolling
  std::string architecture;          ///< "sm_90", or "sm_90a" for units that need its own instructions

  friend auto operator<=>(const CompileUnit&, const CompileUnit&) = default;
};

/// A text that device code is made of, embedded in the program under its path below src/.
struct EmbeddedSource {
  std::string_view name;
  std::string_view text;
};

}  // namespace pagoda::device
