#include "device/host_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "fixtures/temporary_folder.h"

namespace pagoda::device {
namespace {

/// A made-up /proc and /sys.
class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() {
    put("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    600 kB\n");
  }
  void put(const std::string& name, const std::string& text) const { root_.write(name, text); }
  void expect(std::int64_t total, std::int64_t available) const {
    const HostMemory memory = host_memory(root_.path());
    EXPECT_EQ(memory.total_bytes, total);
    EXPECT_EQ(memory.available_bytes, available);
  }

  const fixtures::TemporaryFolder root_;
};

TEST_F(HostMemoryTest, IsTheMachinesWithoutALimit) {
  expect(1000 * 1024, 600 * 1024);
  put("sys/fs/cgroup/memory.max", "max\n");
  put("sys/fs/cgroup/memory.current", "400000\n");
  expect(1000 * 1024, 600 * 1024);
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect(1000 * 1024, 600 * 1024);
}

TEST_F(HostMemoryTest, IsWhatAGroupLeavesAndItsFilePagesCountAsFree) {
  put("sys/fs/cgroup/memory.max", "500000\n");
  put("sys/fs/cgroup/memory.current", "300000\n");
  expect(500000, 200000);
  put("sys/fs/cgroup/memory.stat", "anon 7\ninactive_file 50000\n");
  expect(500000, 250000);
  put("sys/fs/cgroup/memory.current", "900000\n");
  expect(500000, 0);
}

TEST_F(HostMemoryTest, IsTheLeastOfWhatTheGroupsAboveLeave) {
  put("proc/self/cgroup", "0::/system.slice/pagoda.service\n");
  put("sys/fs/cgroup/system.slice/pagoda.service/memory.max", "500000\n");
  put("sys/fs/cgroup/system.slice/pagoda.service/memory.current", "300000\n");
  expect(500000, 200000);
  put("sys/fs/cgroup/system.slice/memory.max", "800000\n");
  put("sys/fs/cgroup/system.slice/memory.current", "790000\n");
  expect(500000, 10000);
}

TEST_F(HostMemoryTest, IsNeverMoreThanTheMachineHas) {
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "900000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  expect(900000, 600 * 1024);
}

TEST(HostMemory, OfThisMachineIsThere) {
  EXPECT_GT(host_memory().total_bytes, 0);
  EXPECT_GT(host_memory().available_bytes, 0);
  EXPECT_EQ(host_memory("/nowhere").total_bytes, 0);
}

}  // namespace
}  // namespace pagoda::device
