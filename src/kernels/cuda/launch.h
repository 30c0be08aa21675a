// What CUDA candidates' host parts have in common: how units are named, grids are cut, and formats are called.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "device/caps.h"
#include "device/cuda/cuda_device.h"
#include "kernels/arithmetic.h"
#include "quant/format.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

inline bool on_cuda(const device::DeviceCaps& caps) { return caps.kind == device::DeviceKind::kCuda; }

/// A unit of a source below kernels/, for the device's own architecture; `suffix` "a" where it needs that one only.
inline CompileUnit cuda_unit(const device::DeviceCaps& caps, std::string_view source, std::vector<std::string> defines,
                             std::string_view suffix = "") {
  return {.source = pagoda::format("kernels/{}", source),
          .defines = std::move(defines),
          .architecture = caps.gpu.architecture() + std::string(suffix)};
}

template <class Value>
std::string define(std::string_view name, Value value) {
  return pagoda::format("{}={}", name, static_cast<std::int64_t>(value));
}

/// "FORMAT=Q4_1": device code calls a format by its name in upper case.
inline std::string format_define(const quant::Format& format) {
  std::string name(format.name);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return "FORMAT=" + name;
}

/// Programmatic launch is an affair of compute capability 9.0 and later.
inline bool programmatic(const device::DeviceCaps& caps) { return caps.gpu.compute() >= 90; }

inline std::uint32_t grid_size(std::int64_t count) { return static_cast<std::uint32_t>(count); }

/// Rows taken in turn where a grid's y has no room for all.
inline std::uint32_t grid_rows(std::int64_t rows) {
  return static_cast<std::uint32_t>(std::min<std::int64_t>(rows, 65535));
}

}  // namespace pagoda::kernels
