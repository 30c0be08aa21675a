#include "base/control_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace pagoda {
namespace {

/// A made-up /proc and /sys.
class ControlGroups : public ::testing::Test {
 protected:
  ControlGroups() : root_(std::filesystem::path(::testing::TempDir()) / ("groups_" + std::to_string(getpid()))) {}
  ~ControlGroups() override { std::filesystem::remove_all(root_); }
  void put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int granted() const { return granted_cpus(root_.string()); }

  const std::filesystem::path root_;
};

TEST_F(ControlGroups, GrantAllCpusWhereNothingIsSaid) {
  EXPECT_EQ(granted(), 0);
  put("proc/self/cgroup", "0::/system.slice/pagoda.service\n");
  put("sys/fs/cgroup/system.slice/pagoda.service/cpu.max", "max 100000\n");
  EXPECT_EQ(granted(), 0);
}

TEST_F(ControlGroups, LimitInAContainerByTheirRoot) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(granted(), 3);
  put("proc/self/cgroup", "0::/../outside\n");
  EXPECT_EQ(granted(), 3);
}

// A unit's own group is a folder below, and those above it hold too.
TEST_F(ControlGroups, LimitByTheLeastOfAllThatHoldAProcess) {
  put("proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/pagoda.service\n");
  put("sys/fs/cgroup/system.slice/pagoda.service/cpu.max", "400000 100000\n");
  EXPECT_EQ(granted(), 4);
  put("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(granted(), 2);
  put("sys/fs/cgroup/system.slice/pagoda.service/cpu.max", "20000 100000\n");
  EXPECT_EQ(granted(), 1);
  put("sys/fs/cgroup/other.slice/cpu.max", "1 100000\n");
  const std::string groups = root_.string() + "/sys/fs/cgroup";
  EXPECT_EQ(control_groups(root_.string()),
            (std::vector<std::string>{groups + "/system.slice/pagoda.service", groups + "/system.slice", groups}));
}

}  // namespace
}  // namespace pagoda
