// The compiler's cache without a GPU. NVRTC itself is asked only where it is installed; the cache is tested with what
// it would have written.
#include "device/cuda/compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "fixtures/temporary_folder.h"

namespace pagoda::device::cuda {
namespace {

constexpr EmbeddedSource kSources[] = {
    {"a/one.cu", "#include \"a/two.h\"\nextern \"C\" __global__ void k() { f(); }\n"},
    {"a/two.h", "#pragma once\n__device__ inline void f() {}\n"},
    {"a/broken.cu", "#include \"a/nowhere.h\"\n"},
    {"a/other.cu", "extern \"C\" __global__ void k() {}\n"}};
constexpr EmbeddedSource kChangedHeader[] = {kSources[0], {"a/two.h", "__device__ inline void f() { }\n"}};

using fixtures::TemporaryFolder;

CompileUnit unit(std::string source, std::vector<std::string> defines = {}) {
  return {.source = std::move(source), .defines = std::move(defines), .architecture = "sm_90"};
}

TEST(Compiler, TheKeyDependsOnAllThatReachesTheUnit) {
  Compiler compiler({.sources = kSources});
  Compiler changed({.sources = kChangedHeader});
  const std::string key = compiler.key(unit("a/one.cu")).value();
  EXPECT_EQ(key, Compiler({.sources = kSources}).key(unit("a/one.cu")).value());
  EXPECT_NE(key, changed.key(unit("a/one.cu")).value());
  EXPECT_NE(key, compiler.key(unit("a/one.cu", {"X=1"})).value());
  EXPECT_NE(key, compiler.key(unit("a/other.cu")).value());
  EXPECT_NE(key, compiler.key({.source = "a/one.cu", .defines = {}, .architecture = "sm_80"}).value());
  EXPECT_EQ(compiler.key(unit("a/broken.cu")).error().code, ErrorCode::kInternal);
}

TEST(Compiler, WithoutNvrtcOnlyKeptUnitsAreThere) {
  TemporaryFolder folder;
  const std::string cache = folder.path() + "/deep/cache";
  Compiler compiler({.cache_folder = cache, .sources = kSources});
  EXPECT_EQ(compiler.cache_refusal(), "");
  const auto missing = compiler.cubin(unit("a/one.cu"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kDeviceMissing);
}

TEST(Compiler, ADamagedEntryIsRemoved) {
  TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0700);
  Compiler compiler({.cache_folder = folder.path(), .sources = kSources});
  const std::string entry = folder.path() + "/" + compiler.key(unit("a/one.cu")).value() + ".cubin";
  std::ofstream(entry) << "pagoda-cubin-1\n" << std::string(32, 'x') << "not what the hash says";
  EXPECT_FALSE(compiler.cubin(unit("a/one.cu")).ok());
  EXPECT_EQ(compiler.counters().damaged, 1);
  EXPECT_FALSE(std::filesystem::exists(entry));
}

TEST(Compiler, KeepsOtherThingsToo) {
  TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0700);
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{0}, std::byte{7}};
  Compiler writer({.cache_folder = folder.path(), .sources = kSources});
  EXPECT_TRUE(writer.kept("tuning-a").empty());
  writer.keep("tuning-a", bytes);
  Compiler reader({.cache_folder = folder.path(), .sources = kSources});
  EXPECT_EQ(reader.kept("tuning-a"), bytes);
  EXPECT_TRUE(reader.kept("tuning-b").empty());
  EXPECT_EQ(reader.counters().kept, 0) << "it is no unit";
  std::ofstream(folder.path() + "/tuning-a.cubin", std::ios::app) << "x";
  EXPECT_TRUE(reader.kept("tuning-a").empty());
  EXPECT_EQ(reader.counters().damaged, 1);
}

TEST(Compiler, AFolderOpenToOthersIsNotUsed) {
  TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_NE(Compiler({.cache_folder = folder.path(), .sources = kSources}).cache_refusal(), "");
}

}  // namespace
}  // namespace pagoda::device::cuda
