// Kernels made ahead: of one model or of all that are known, packed, kept and compiled.
#include "pagoda/warm.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "api/known_kernels.h"
#include "api/library_state.h"
#include "fixtures/temporary_folder.h"
#include "kernels/cuda/embedded.h"
#include "tiny_chat_model.h"

namespace pagoda::api {
namespace {

using device::CompileUnit;
using device::cuda::Compiler;
using device::cuda::CompilerOptions;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

const std::string kLlama = PAGODA_SOURCE_DIR "/configs/Llama-3.2-1B.json";

Result<Bytes> made_up(const CompileUnit& unit) {
  return Bytes(unit.source.size(), static_cast<std::byte>(unit.defines.size()));
}

Result<Bytes> refused(const CompileUnit& unit) { return fail(ErrorCode::kInternal, "{} is compiled", unit.source); }

/// A library with a folder for kernels that goes with it, and a compiler that makes cubins up.
struct WarmLibrary {
  explicit WarmLibrary(Result<Bytes> (*compile)(const CompileUnit&) = made_up, std::span<const std::byte> pack = {}) {
    options.cache_folder = folder.file("kernels");
    options.kernel_pack = pack;
    library = Library::create(options).value();
    library->state()->compiler = std::make_shared<Compiler>(
        CompilerOptions{.cache_folder = options.cache_folder,
                        .sources = kernels::embedded_sources(),
                        .pack = pack.empty() ? nullptr : device::cuda::KernelPack::open(pack).value(),
                        .compile = compile});
  }

  Result<Warmed> warm(const std::string& path, const WarmOptions& wanted = {.caps = "h200"}) const {
    return pagoda::warm(*library, path, wanted);
  }

  fixtures::TemporaryFolder folder;
  LibraryOptions options;
  std::optional<Library> library;
};

std::set<std::string> sources_of(std::span<const CompileUnit> units) {
  std::set<std::string> sources;
  for (const CompileUnit& unit : units) sources.insert(unit.source);
  return sources;
}

Bytes pack_of(std::span<const CompileUnit> units) {
  const Compiler compiler({.sources = kernels::embedded_sources()});
  std::vector<device::cuda::PackedKernel> kernels;
  for (const CompileUnit& unit : units) kernels.push_back({compiler.pack_key(unit).value(), made_up(unit).value()});
  return device::cuda::write_kernel_pack("12.9", kernels, 1);
}

TEST(WarmTest, CompilesOnceAndKeeps) {
  const WarmLibrary first;
  const Warmed compiled = first.warm(kLlama).value();
  EXPECT_EQ(compiled.gpu, "NVIDIA H200");
  EXPECT_EQ(compiled.architecture, "sm_90");
  EXPECT_EQ(compiled.folder, first.options.cache_folder);
  EXPECT_GT(compiled.compiled, 15);
  EXPECT_EQ(compiled.kept + compiled.packed, 0);
  const Warmed kept = first.warm(kLlama).value();
  EXPECT_EQ(kept.kept, compiled.compiled);
  EXPECT_EQ(kept.compiled + kept.packed, 0);
}

TEST(WarmTest, WhatIsPackedIsNotCompiled) {
  const Bytes pack = pack_of(known_units(device::gpu_caps("h200").value(), {}, 1).value());
  const WarmLibrary packed(refused, pack);
  // The ways in which a known model may be opened, each of which compiles code of its own.
  for (const char* kv_dtype : {"auto", "fp8_e4m3"}) {
    for (const std::int64_t max_running : {1, 16, 64, 256}) {
      for (const bool deterministic : {false, true}) {
        WarmOptions options{.caps = "h200"};
        options.model.kv_dtype = kv_dtype;
        options.model.max_running = max_running;
        options.model.deterministic = deterministic;
        const auto warmed = packed.warm(kLlama, options);
        ASSERT_TRUE(warmed.ok()) << warmed.error().message << kv_dtype << max_running << deterministic;
        EXPECT_GT(warmed->packed, 15);
        EXPECT_EQ(warmed->kept + warmed->compiled, 0);
      }
    }
  }
  EXPECT_FALSE(packed.warm(kLlama, {.caps = "a100"}).ok()) << "the pack is of another GPU";
}

TEST(WarmTest, FlagsThatChangeThePlanCount) {
  const WarmLibrary library;
  EXPECT_GT(library.warm(kLlama).value().compiled, 0);
  WarmOptions options{.caps = "h200"};
  options.model.kv_dtype = "fp8_e4m3";
  const Warmed other = library.warm(kLlama, options).value();
  EXPECT_GT(other.compiled, 0);
  EXPECT_GT(other.kept, other.compiled) << "products know nothing of the cache's type";
  options.model.dummy_weights = "q4_k";
  EXPECT_GT(library.warm(kLlama, options).value().compiled, 0);
}

TEST(WarmTest, AModelOfAFile) {
  const WarmLibrary library;
  const TemporaryFile file(tiny_chat_bytes({}));
  EXPECT_GT(library.warm(file.path(), {.caps = "rtx4090"}).value().compiled, 5);
}

TEST(WarmTest, AllThatIsKnownOnEveryGpu) {
  const Compiler compiler({.sources = kernels::embedded_sources()});
  ModelOptions options;
  for (const std::string_view name : device::known_gpus()) {
    const device::DeviceCaps gpu = device::gpu_caps(name).value();
    const auto units = known_units(gpu, options, 1).value();
    EXPECT_GT(units.size(), 200u) << name;
    const std::set<std::string> sources = sources_of(units);
    for (const std::string& source : sources) {
      EXPECT_TRUE(compiler.pack_key({.source = source, .defines = {}, .architecture = "sm_80"}).ok()) << source;
    }
    const DescribedFile described = describe_file(kLlama, {.dummy_weights = "bf16"}).value();
    const auto wanted = units_of(described.description, gpu, options, 1).value();
    for (const CompileUnit& unit : wanted) {
      EXPECT_TRUE(std::ranges::binary_search(units, unit)) << name << " " << unit.source;
    }
  }
  const WarmLibrary library;
  EXPECT_EQ(library.warm("", {.caps = "a100"}).value().compiled,
            std::ssize(known_units(device::gpu_caps("a100").value(), options, 1).value()));
}

TEST(WarmTest, WhatCannotBeKeptIsNotCompiled) {
  const WarmLibrary library(refused);
  std::filesystem::permissions(library.folder.file("kernels"), std::filesystem::perms::all);
  library.library->state()->compiler = nullptr;  // made anew, as a program makes it
  const auto open_to_all = library.warm(kLlama);
  ASSERT_FALSE(open_to_all.ok());
  EXPECT_EQ(open_to_all.error().code, ErrorCode::kIoFailed);
  EXPECT_THAT(open_to_all.error().message, HasSubstr("0700"));
  const Library homeless = Library::create().value();
  const auto nowhere = pagoda::warm(homeless, kLlama, {.caps = "h200"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIoFailed);
}

TEST(WarmTest, Errors) {
  const WarmLibrary library;
  EXPECT_EQ(library.warm(kLlama, {.caps = "h300"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(library.warm(PAGODA_SOURCE_DIR "/nothing.gguf").error().code, ErrorCode::kFileNotFound);
  for (const char* device : {"cpu", "reference", "tpu"}) {
    WarmOptions options{.caps = "h200"};
    options.model.device = device;
    EXPECT_EQ(library.warm(kLlama, options).error().code, ErrorCode::kInvalidArgument) << device;
  }
  WarmOptions absent;
  absent.model.device = "cuda:99";
  const auto missing = library.warm(kLlama, absent);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(kind_of(missing.error().code), ErrorKind::kDevice);
  EXPECT_THAT(missing.error().message, HasSubstr("--caps h200"));
}

TEST(WarmTest, ADamagedPackIsSaidAndNotUsed) {
  Bytes pack = pack_of({});
  pack[50] ^= std::byte{1};
  std::vector<std::string> said;
  LibraryOptions options;
  options.kernel_pack = pack;
  options.log = [&said](LogLevel, std::string_view line) { said.emplace_back(line); };
  const Library library = Library::create(options).value();
  EXPECT_FALSE(pagoda::warm(library, kLlama, {.caps = "h200"}).ok());
  EXPECT_THAT(said, testing::Contains(HasSubstr("the index of the packed kernels is damaged")));
}

}  // namespace
}  // namespace pagoda::api
