#include "device/caps.h"

#include <cpuid.h>

#include <array>
#include <cstring>

namespace pagoda::device {
namespace {

constexpr std::array<std::string_view, 4> kIsaNames = {"portable", "avx2", "avx512", "avx512_bf16"};
constexpr std::array<std::string_view, 3> kKindNames = {"reference", "cpu", "cuda"};

std::string processor_name() {
  std::array<unsigned, 12> words{};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* out = words.data() + leaf * 4;
    if (__get_cpuid(0x80000002u + leaf, out, out + 1, out + 2, out + 3) == 0) return "unknown CPU";
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words.data(), sizeof words);
  std::string name = text;
  const auto first = name.find_first_not_of(' ');
  const auto last = name.find_last_not_of(' ');
  return first == std::string::npos ? "unknown CPU" : name.substr(first, last - first + 1);
}

/// Not every compiler's builtin knows the name; the state it needs is that of AVX.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

struct KnownGpu {
  std::string_view name, card;
  GpuCaps caps;
};

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// From NVIDIA's data sheets and the compute capability table of its programming guide.
constexpr KnownGpu kKnownGpus[] = {
    {"h200", "NVIDIA H200", {9, 0, 132, 232448, 60 * kMiB, 139 * kGiB}},
    {"h100", "NVIDIA H100", {9, 0, 132, 232448, 50 * kMiB, 79 * kGiB}},
    {"a100", "NVIDIA A100", {8, 0, 108, 166912, 40 * kMiB, 79 * kGiB}},
    {"l4", "NVIDIA L4", {8, 9, 58, 101376, 48 * kMiB, 22 * kGiB}},
    {"rtx4090", "NVIDIA GeForce RTX 4090", {8, 9, 128, 101376, 72 * kMiB, 23 * kGiB}},
    {"b200", "NVIDIA B200", {10, 0, 148, 232448, 126 * kMiB, 178 * kGiB}},
    {"rtx5090", "NVIDIA GeForce RTX 5090", {12, 0, 170, 101376, 96 * kMiB, 31 * kGiB}},
};

}  // namespace

std::string_view to_string(CpuIsa isa) { return kIsaNames[static_cast<std::uint8_t>(isa)]; }
std::string_view to_string(DeviceKind kind) { return kKindNames[static_cast<std::uint8_t>(kind)]; }

CpuIsa detect_isa() {
  // The builtins ask cpuid and the system's saved state (XGETBV) alike.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
    return CpuIsa::kPortable;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  if (!avx512) return CpuIsa::kAvx2;
  return __builtin_cpu_supports("avx512bf16") ? CpuIsa::kAvx512Bf16 : CpuIsa::kAvx512;
}

Result<CpuIsa> parse_isa(std::string_view text) {
  for (std::size_t index = 0; index < kIsaNames.size(); ++index) {
    if (kIsaNames[index] == text) return static_cast<CpuIsa>(index);
  }
  return fail_param(ErrorCode::kInvalidArgument, "cpu",
                    "\"{}\" is no set of CPU instructions; known are portable, avx2, avx512 and avx512_bf16", text);
}

Result<DeviceCaps> cpu_caps(CpuIsa isa) {
  if (isa > detect_isa()) {
    return fail_param(ErrorCode::kDeviceUnfit, "cpu",
                      "this CPU does not have the instructions of {}; its best set is {}", to_string(isa),
                      to_string(detect_isa()));
  }
  return DeviceCaps{.kind = DeviceKind::kCpu, .isa = isa, .name = processor_name()};
}

Result<DeviceCaps> gpu_caps(std::string_view name) {
  std::string names;
  for (const KnownGpu& known : kKnownGpus) {
    if (known.name == name) {
      return DeviceCaps{
          .kind = DeviceKind::kCuda, .isa = CpuIsa::kPortable, .name = std::string(known.card), .gpu = known.caps};
    }
    names += pagoda::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  return fail_param(ErrorCode::kInvalidArgument, "--caps", "\"{}\" is no GPU that Pagoda knows; known are {}", name,
                    names);
}

std::vector<std::string_view> known_gpus() {
  std::vector<std::string_view> names;
  for (const KnownGpu& known : kKnownGpus) names.push_back(known.name);
  return names;
}

DeviceCaps reference_caps() { return {.kind = DeviceKind::kReference, .isa = CpuIsa::kPortable, .name = "reference"}; }

}  // namespace pagoda::device
