// What a cubin says about its kernels, read from the file itself: no driver, no disassembler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

namespace pagoda::fixtures {

struct KernelInfo {
  std::int64_t registers = 0;     ///< of a thread
  std::int64_t local_bytes = 0;   ///< of a thread: spills and arrays that found no registers
  std::int64_t shared_bytes = 0;  ///< static, of a block
  /// Which of these it has: "mma", "wgmma", "ldmatrix", "copy_async", "bulk_copy", "tensor_map_copy".
  std::set<std::string> instructions{};
  friend bool operator==(const KernelInfo&, const KernelInfo&) = default;
};

/// By the kernels' names; empty if it is no cubin.
std::map<std::string, KernelInfo> kernels_in(std::span<const std::byte> cubin);

}  // namespace pagoda::fixtures
