// What a device can do: plain data, so that plans are made and tested for any device on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::device {

enum class DeviceKind : std::uint8_t {
  kReference,  ///< the host, every operation's reference in double precision
  kCpu,
  kCuda,
};

/// Sets of CPU instructions that kernels are written for; each includes those before it.
enum class CpuIsa : std::uint8_t {
  kPortable,
  kAvx2,        ///< AVX2, FMA, F16C
  kAvx512,      ///< AVX-512 F, BW, DQ, VL and VNNI
  kAvx512Bf16,  ///< and AVX512-BF16
};

struct DeviceCaps {
  DeviceKind kind = DeviceKind::kCpu;
  CpuIsa isa = CpuIsa::kPortable;
  std::string name;  ///< of the processor, as it calls itself
};

std::string_view to_string(CpuIsa isa);
std::string_view to_string(DeviceKind kind);

/// The best set this processor and system offer.
CpuIsa detect_isa();

/// "portable", "avx2", "avx512" or "avx512_bf16"; another word is kInvalidArgument.
Result<CpuIsa> parse_isa(std::string_view text);

/// This machine's CPU. A set that it lacks is kDeviceUnfit.
Result<DeviceCaps> cpu_caps(CpuIsa isa);
DeviceCaps reference_caps();

}  // namespace pagoda::device
