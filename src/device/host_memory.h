#pragma once

#include <cstdint>
#include <string>

namespace pagoda::device {

/// Memory of this machine that the process may use: its own limit (control groups, version 2 and 1) counts as the
/// machine's where it is smaller. 0 where the system does not say.
struct HostMemory {
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;  ///< without pushing anything out to disk
};

/// As it is now. `root` stands before /proc and /sys: for tests.
HostMemory host_memory(const std::string& root = {});

}  // namespace pagoda::device
