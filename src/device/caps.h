// What a device can do: plain data, so that plans are made and tested for any device on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
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

/// What a plan asks of a GPU: plain data, also for a GPU that is not there.
struct GpuCaps {
  std::int32_t compute_major = 0;
  std::int32_t compute_minor = 0;
  std::int32_t num_sms = 0;
  std::int64_t shared_bytes_per_block = 0;  ///< the most that a block may opt in to
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;

  /// "sm_90"
  std::string architecture() const { return pagoda::format("sm_{}{}", compute_major, compute_minor); }
  std::int32_t compute() const { return compute_major * 10 + compute_minor; }
  friend bool operator==(const GpuCaps&, const GpuCaps&) = default;
};

struct DeviceCaps {
  DeviceKind kind = DeviceKind::kCpu;
  CpuIsa isa = CpuIsa::kPortable;
  std::string name;  ///< of the processor or card, as it calls itself
  GpuCaps gpu = {};  ///< of kCuda
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

/// A GPU known by name, so that plans are shown and tested without it: "h200", "h100", "a100", "l4", "rtx4090", "b200",
/// "rtx5090". Another word is kInvalidArgument.
Result<DeviceCaps> gpu_caps(std::string_view name);

/// These names.
std::vector<std::string_view> known_gpus();

}  // namespace pagoda::device
