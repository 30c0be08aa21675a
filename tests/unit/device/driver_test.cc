#include "device/cuda/driver.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace pagoda::device::cuda {
namespace {

TEST(DriverApi, EveryEntryIsListedOnce) {
  DriverApi api{};
  std::set<std::string> names;
  std::size_t entries = 0;
  for_each_entry(api, [&](const char* name, auto&) {
    names.insert(name);
    ++entries;
  });
  EXPECT_EQ(names.size(), entries);
  EXPECT_EQ(entries * sizeof(void*), sizeof(DriverApi));
}

TEST(Driver, FailuresBecomeErrorsWithTheDriversWords) {
  DriverApi api{};
  api.get_error_name = [](Result32, const char** text) {
    *text = "NAME";
    return kSuccess;
  };
  api.get_error_string = [](Result32, const char** text) {
    *text = "the words";
    return kSuccess;
  };
  const Driver driver(api);
  EXPECT_EQ(driver.error_of(kOutOfMemory, "x").code, ErrorCode::kDeviceMemory);
  try {
    driver.check(700, "copying");
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kDeviceLost);
    EXPECT_EQ(error.error().message, "copying failed: the words (NAME)");
  }
}

TEST(Driver, AMachineWithoutOneSaysSo) {
  const auto driver = Driver::load();
  if (driver.ok()) return;  // this machine has a GPU: tests/gpu are for it
  EXPECT_EQ(kind_of(driver.error().code), ErrorKind::kDevice);
  EXPECT_NE(driver.error().message.find("driver"), std::string::npos);
}

}  // namespace
}  // namespace pagoda::device::cuda
