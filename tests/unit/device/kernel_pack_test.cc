// Kernels that travel with the program: read back as they were packed, refused where a byte is not what it was, and
// never used for other sources than those they were made of.
#include "device/cuda/kernel_pack.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "device/cuda/compiler.h"
#include "fixtures/temporary_folder.h"

namespace pagoda::device::cuda {
namespace {

constexpr EmbeddedSource kSources[] = {{"a/one.cu", "#include \"a/two.h\"\nvoid k() { f(); }\n"},
                                       {"a/two.h", "inline void f() {}\n"},
                                       {"a/other.cu", "void k() {}\n"}};
constexpr EmbeddedSource kChanged[] = {kSources[0], {"a/two.h", "inline void f() { }\n"}, kSources[2]};

using Bytes = std::vector<std::byte>;

Bytes made_up(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

Sha256 key_of(int number) { return sha256(pagoda::format("kernel {}", number)); }

/// With a unit of sixty thousand they need several frames, and the last one is larger than a frame.
std::vector<PackedKernel> some_kernels(std::size_t unit = 331) {
  std::vector<PackedKernel> kernels;
  for (int i = 0; i < 7; ++i) {
    kernels.push_back({.key = key_of(i), .cubin = made_up(1 + static_cast<std::size_t>(i * i) * unit, 5u + i)});
  }
  return kernels;
}

CompileUnit unit(std::string source, std::string architecture = "sm_80") {
  return {.source = std::move(source), .defines = {"N=3"}, .architecture = std::move(architecture)};
}

/// A pack of the unit a/one.cu.
Bytes pack_of_one(std::string architecture = "sm_80") {
  const Compiler compiler({.sources = kSources});
  const PackedKernel kernel{compiler.pack_key(unit("a/one.cu", std::move(architecture))).value(), made_up(1234, 1)};
  return write_kernel_pack("12.9", {&kernel, 1}, 1);
}

TEST(KernelPack, GivesBackWhatWasPacked) {
  for (const std::size_t size : {std::size_t{331}, std::size_t{60'013}}) {
    const auto kernels = some_kernels(size);
    const Bytes bytes = write_kernel_pack("12.9", kernels, 3);
    EXPECT_EQ(bytes, write_kernel_pack("12.9", kernels, 1));
    const auto pack = KernelPack::open(bytes).value();
    EXPECT_EQ(pack->compiler(), "12.9");
    EXPECT_EQ(pack->size(), kernels.size());
    for (const bool again : {false, true}) {  // from frames that are open already
      for (const auto& [key, cubin] : kernels) {
        EXPECT_TRUE(pack->contains(key));
        EXPECT_EQ(pack->cubin(key).value(), cubin) << again;
      }
    }
    EXPECT_FALSE(pack->contains(key_of(99)));
    EXPECT_TRUE(pack->cubin(key_of(99)).value().empty());
  }
  const Bytes nothing = write_kernel_pack("12.9", {}, 2);
  EXPECT_FALSE(KernelPack::open(nothing).value()->contains(key_of(0)));
}

// Neighbours that are alike take little more than one of them, and may be read in any order from several threads.
TEST(KernelPack, KernelsThatAreAlikeShareAFrame) {
  std::vector<PackedKernel> kernels;
  for (int i = 0; i < 60; ++i) {
    kernels.push_back({.key = key_of(i), .cubin = made_up(97'000, 5)});
    kernels.back().cubin[static_cast<std::size_t>(i) * 331] ^= std::byte{0x55};
  }
  const Bytes bytes = write_kernel_pack("12.9", kernels, 2);
  EXPECT_LT(bytes.size(), 5u * 97'000);  // a frame has room for 21 of them
  const auto pack = KernelPack::open(bytes).value();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t i = 0; i < 60; ++i) {
        const PackedKernel& kernel = kernels[(i * 23 + thread * 7) % 60];
        right += pack->cubin(kernel.key).value() == kernel.cubin ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4 * 60);
}

TEST(KernelPack, RefusesWhatIsDamaged) {
  const auto kernels = some_kernels();
  const Bytes whole = write_kernel_pack("12.9", kernels, 1);
  for (std::size_t at = 0; at < whole.size(); at += at < 800 ? 1 : 97) {
    Bytes damaged = whole;
    damaged[at] ^= std::byte{0x20};
    const auto pack = KernelPack::open(damaged);
    std::size_t refused = pack.ok() ? 0 : 1;
    for (const auto& [key, cubin] : kernels) {
      if (!pack.ok()) break;
      const auto read = (*pack)->cubin(key);
      refused += read.ok() ? 0 : 1;
      EXPECT_TRUE(!read.ok() || *read == cubin) << at;
    }
    const bool compiler_name = at >= 16 && at < 32;  // of no account to what is read
    EXPECT_EQ(refused > 0, !compiler_name) << at;
  }
  for (std::size_t size = 0; size < whole.size(); size += 61) {
    const auto pack = KernelPack::open(std::span(whole).first(size));
    if (!pack.ok()) continue;
    std::size_t refused = 0;
    for (const auto& [key, cubin] : kernels) refused += (*pack)->cubin(key).ok() ? 0 : 1;
    EXPECT_GT(refused, 0u) << size;
  }
}

TEST(PackedCompiler, LooksIntoThePackFirst) {
  const Bytes bytes = pack_of_one();
  Compiler compiler({.sources = kSources, .pack = KernelPack::open(bytes).value()});
  EXPECT_TRUE(compiler.is_packed(unit("a/one.cu")));
  EXPECT_EQ(compiler.cubin(unit("a/one.cu")).value(), made_up(1234, 1));
  EXPECT_EQ(compiler.counters().packed, 1);
  EXPECT_FALSE(compiler.is_packed(unit("a/other.cu")));
  EXPECT_EQ(compiler.cubin(unit("a/other.cu")).error().code, ErrorCode::kDeviceMissing);
  EXPECT_FALSE(compiler.is_packed({.source = "a/one.cu", .defines = {"N=4"}, .architecture = "sm_80"}));
}

TEST(PackedCompiler, NeverRunsWhatWasMadeOfOtherSources) {
  const Bytes bytes = pack_of_one();
  Compiler compiler({.sources = kChanged, .pack = KernelPack::open(bytes).value()});
  EXPECT_FALSE(compiler.is_packed(unit("a/one.cu")));
  EXPECT_FALSE(compiler.cubin(unit("a/one.cu")).ok());
  EXPECT_EQ(compiler.counters().packed, 0);
}

TEST(PackedCompiler, ServesLaterGpusOfOneGeneration) {
  const Bytes ampere = pack_of_one("sm_80");
  const Compiler compiler({.sources = kSources, .pack = KernelPack::open(ampere).value()});
  EXPECT_TRUE(compiler.is_packed(unit("a/one.cu", "sm_86")));
  EXPECT_FALSE(compiler.is_packed(unit("a/one.cu", "sm_90")));
  const Bytes hopper = pack_of_one("sm_90a");
  const Compiler specific({.sources = kSources, .pack = KernelPack::open(hopper).value()});
  EXPECT_TRUE(specific.is_packed(unit("a/one.cu", "sm_90a")));
  EXPECT_FALSE(specific.is_packed(unit("a/one.cu", "sm_90")));
  EXPECT_FALSE(specific.is_packed(unit("a/one.cu", "sm_91")));
}

TEST(PackedCompiler, CompilesWhatIsDamagedAgain) {
  Bytes bytes = pack_of_one();
  bytes.back() ^= std::byte{1};
  const Bytes fresh = made_up(77, 3);
  Compiler compiler({.sources = kSources,
                     .pack = KernelPack::open(bytes).value(),
                     .compile = [&](const CompileUnit&) -> Result<Bytes> { return fresh; }});
  EXPECT_EQ(compiler.cubin(unit("a/one.cu")).value(), fresh);
  EXPECT_EQ(compiler.counters().damaged, 1);
  EXPECT_EQ(compiler.counters().compiled, 1);
  EXPECT_EQ(compiler.counters().packed, 0);
}

std::vector<CompileUnit> many_units() {
  std::vector<CompileUnit> units;
  for (int i = 0; i < 60; ++i) {
    units.push_back({.source = "a/one.cu", .defines = {pagoda::format("N={}", i)}, .architecture = "sm_80"});
  }
  return units;
}

/// A compiler that makes cubins of its own, large enough that writing one takes more than one page.
Compiler cubin_maker(const std::string& folder) {
  return Compiler({.cache_folder = folder,
                   .sources = kSources,
                   .num_threads = 2,
                   .compile = [](const CompileUnit& unit) -> Result<Bytes> {
                     return made_up(30011, static_cast<unsigned>(std::hash<std::string>()(unit.defines[0])));
                   }});
}

TEST(CompilerCache, SeveralProcessesFillOneFolderAtOnce) {
  const fixtures::TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(cubin_maker(folder.path()).compile_all(many_units()).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  Compiler after = cubin_maker(folder.path());
  ASSERT_TRUE(after.compile_all(many_units()).ok());
  EXPECT_EQ(after.counters().kept, 60);
  EXPECT_EQ(after.counters().compiled, 0);
  EXPECT_EQ(after.counters().damaged, 0);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.exists() ? 1 : 0;
  EXPECT_EQ(files, 60u) << "no temporary files are left";
}

TEST(CompilerCache, SaysWhatItCouldNotWrite) {
  const fixtures::TemporaryFolder folder;
  Compiler compiler = cubin_maker(folder.path() + "/gone");
  std::filesystem::remove_all(folder.path() + "/gone");
  EXPECT_TRUE(compiler.compile_all(many_units()).ok());
  EXPECT_EQ(compiler.counters().unwritten, 60);
}

}  // namespace
}  // namespace pagoda::device::cuda
