// Outputs are whole or not there.
#include "base/output.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "fixtures/temporary_folder.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

class OutputTest : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::size_t entries() const { return folder_.entries(); }
  std::string text(const std::string& name) const { return read_text(file(name), 1 << 20).value(); }

  fixtures::TemporaryFolder folder_;
};

TEST_F(OutputTest, NothingIsThereBeforeCommit) {
  {
    const Output output = Output::create(file("a"), false).value();
    ASSERT_TRUE(write_text(output.work_path(), "half").ok());
    EXPECT_FALSE(fs::exists(file("a")));
    EXPECT_EQ(entries(), 1u);
  }
  EXPECT_EQ(entries(), 0u) << "what was not committed is gone";
  Output output = Output::create(file("a"), false).value();
  ASSERT_TRUE(write_text(output.work_path(), "whole").ok());
  ASSERT_TRUE(output.commit().ok());
  EXPECT_EQ(text("a"), "whole");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputTest, ReplacesOnlyIfAsked) {
  ASSERT_TRUE(write_text(file("a"), "old").ok());
  const auto refused = Output::create(file("a"), false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  Output output = Output::create(file("a"), true).value();
  ASSERT_TRUE(write_text(output.work_path(), "new").ok());
  EXPECT_EQ(text("a"), "old") << "the old one stands until the new one is whole";
  ASSERT_TRUE(output.commit().ok());
  EXPECT_EQ(text("a"), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputTest, WhatCameMeanwhileStays) {
  for (const bool is_folder : {false, true}) {
    Output output = Output::create(file("a"), false).value();
    ASSERT_TRUE(write_text(output.work_path(), "ours").ok());
    if (is_folder) {
      fs::create_directory(file("a"));
    } else {
      ASSERT_TRUE(write_text(file("a"), "theirs").ok());
    }
    const Status done = output.commit();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ErrorCode::kIoFailed);
    EXPECT_EQ(fs::is_directory(file("a")), is_folder);
    fs::remove_all(file("a"));
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(OutputTest, ReplacesDirectories) {
  fs::create_directory(file("a"));
  ASSERT_TRUE(write_text(file("a/old"), "old").ok());
  Output output = Output::create(file("a/"), true).value();
  fs::create_directory(output.work_path());
  ASSERT_TRUE(write_text(output.work_path() + "/new", "new").ok());
  ASSERT_TRUE(output.commit().ok());
  EXPECT_TRUE(fs::exists(file("a/new")));
  EXPECT_FALSE(fs::exists(file("a/old")));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputTest, NoDirectoryToHoldIt) {
  const auto output = Output::create(file("nowhere/a"), false);
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().code, ErrorCode::kIoFailed);
  EXPECT_NE(output.error().message.find("nowhere"), std::string::npos);
}

TEST_F(OutputTest, PartsOfAFile) {
  NewFile made = NewFile::create(file("a"), 11).value();
  const auto put = [&](std::uint64_t offset, std::string_view part) {
    ASSERT_TRUE(made.write(offset, std::as_bytes(std::span(part.data(), part.size()))).ok());
  };
  put(8, "xyz");
  put(1, "bcd");
  ASSERT_TRUE(made.finish().ok());
  EXPECT_EQ(text("a"), std::string("\0bcd\0\0\0\0xyz", 11));
}

// A limit of the process stands for a full disk: the same calls fail.
TEST_F(OutputTest, NoRoom) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto made = NewFile::create(file("a"), 1 << 20);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kIoFailed);
  EXPECT_NE(made.error().message.find(file("a")), std::string::npos);
}

}  // namespace
}  // namespace pagoda
