#include "device/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "base/control_groups.h"

namespace pagoda::device {
namespace {

/// The number that a file holds; none if it is missing or holds a word, as "max".
std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
}

/// A value of /proc/meminfo, which counts in KiB.
std::int64_t meminfo_bytes(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kib = 0;
    if (words >> key >> kib && key == name) return kib * 1024;
  }
  return 0;
}

/// Of "inactive_file 4096": pages of files that the group's limit does not really stand for.
std::int64_t stat_bytes(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  std::int64_t bytes = 0;
  while (file >> key >> bytes) {
    if (key == name) return bytes;
  }
  return 0;
}

/// Lowers `memory` to what a control group allows, if it has a limit. One that is higher than another's may have less
/// left.
void limit(HostMemory& memory, std::optional<std::int64_t> most, std::optional<std::int64_t> used,
           std::int64_t reclaimable) {
  if (!most) return;
  memory.total_bytes = std::min(memory.total_bytes, *most);
  const std::int64_t free = *most - std::max<std::int64_t>(0, used.value_or(0) - reclaimable);
  memory.available_bytes = std::clamp<std::int64_t>(free, 0, memory.available_bytes);
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  HostMemory memory{.total_bytes = meminfo_bytes(meminfo, "MemTotal:"),
                    .available_bytes = meminfo_bytes(meminfo, "MemAvailable:")};
  for (const std::string& group : control_groups(root)) {
    limit(memory, number_in(group + "/memory.max"), number_in(group + "/memory.current"),
          stat_bytes(group + "/memory.stat", "inactive_file"));
  }
  const std::string version1 = root + "/sys/fs/cgroup/memory/memory.";
  limit(memory, number_in(version1 + "limit_in_bytes"), number_in(version1 + "usage_in_bytes"),
        stat_bytes(version1 + "stat", "total_inactive_file"));
  return memory;
}

}  // namespace pagoda::device
