#include "base/control_groups.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace pagoda {

std::vector<std::string> control_groups(const std::string& root) {
  constexpr std::string_view kVersion2 = "0::/";
  std::string path;  // with its slash in front, and none behind
  std::ifstream own(root + "/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    if (line.starts_with(kVersion2)) path = line.substr(kVersion2.size() - 1);
  }
  if (path == "/" || path.starts_with("/.."))
    path.clear();  // of a group outside of the namespace nothing is to be seen
  std::vector<std::string> groups;
  for (; !path.empty(); path.erase(path.rfind('/'))) groups.push_back(root + "/sys/fs/cgroup" + path);
  groups.push_back(root + "/sys/fs/cgroup");
  return groups;
}

int granted_cpus(const std::string& root) {
  int least = 0;
  for (const std::string& group : control_groups(root)) {
    std::ifstream file(group + "/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) continue;
    const double cpus = std::strtod(quota.c_str(), nullptr) / period;
    if (cpus <= 0) continue;
    const int whole = std::max(1, static_cast<int>(cpus + 0.999));
    least = least == 0 ? whole : std::min(least, whole);
  }
  return least;
}

}  // namespace pagoda
