#include "base/control_groups.h"

#include <gtest/gtest.h>

#include "fixtures/temporary_folder.h"

namespace pagoda {
namespace {

/// A made-up /proc and /sys.
class ControlGroups : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const { root_.write(name, text); }
  int granted() const { return granted_cpus(root_.path()); }

  const fixtures::TemporaryFolder root_;
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
  const std::string groups = root_.path() + "/sys/fs/cgroup";
  EXPECT_EQ(control_groups(root_.path()),
            (std::vector<std::string>{groups + "/system.slice/pagoda.service", groups + "/system.slice", groups}));
}

}  // namespace
}  // namespace pagoda
