// What the control groups (Linux, version 2) that hold this process let it have.
#pragma once

#include <string>
#include <vector>

namespace pagoda {

/// Folders of the groups that hold this process, its own first and the root last; their limits all hold. In a container
/// with a namespace of its own that is the root alone. `root`: where /proc and /sys are looked for.
std::vector<std::string> control_groups(const std::string& root = "");

/// CPUs' worth of time that the groups grant (cpu.max), the least of them, rounded up; 0: unlimited or unknown.
int granted_cpus(const std::string& root = "");

}  // namespace pagoda
