// Models opened on a GPU of paper: what does not fit is refused with the numbers, and a lost device is an error that
// stays.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "api/known_kernels.h"
#include "api/library_state.h"
#include "device/cuda/kernel_pack.h"
#include "fixtures/paper_driver.h"
#include "kernels/cuda/embedded.h"
#include "tiny_chat_model.h"

namespace pagoda::api {
namespace {

using fixtures::PaperDriver;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::string paper_chat() {
  TinyChat chat;
  chat.model.format = "bf16";
  return tiny_chat_bytes(chat);
}

/// A library whose only GPU is of paper, with 2 GiB.
struct PaperLibrary {
  explicit PaperLibrary(std::vector<std::string>* log = nullptr) : library(Library::create(options(log)).value()) {
    library.state()->driver = paper.driver();
    library.state()->compiler = PaperDriver::compiler();
  }
  static LibraryOptions options(std::vector<std::string>* log) {
    LibraryOptions options;
    options.threads = 2;
    options.log = [log](LogLevel, std::string_view line) {
      if (log != nullptr) log->emplace_back(line);
    };
    return options;
  }
  static device::GpuCaps caps() {
    device::GpuCaps caps = device::gpu_caps("h200").value().gpu;
    caps.memory_bytes = std::int64_t{2} << 30;
    return caps;
  }

  PaperDriver paper{caps()};
  Library library;
};

TEST(GpuTest, TheLibraryListsIt) {
  const PaperLibrary gpu;
  const std::vector<DeviceInfo> devices = gpu.library.devices();
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[2].id, "cuda:0");
  EXPECT_EQ(devices[2].name, "a card of paper");
  EXPECT_EQ(devices[2].memory_bytes, PaperLibrary::caps().memory_bytes);
  EXPECT_EQ(gpu.paper.calls("cuDevicePrimaryCtxRetain"), 0) << "listing opens nothing";
}

TEST(GpuTest, AModelThatDoesNotFitIsRefusedWithTheNumbers) {
  std::vector<std::string> log;
  PaperLibrary gpu(&log);
  const TemporaryFile file(paper_chat());
  const auto refused = Model::open(gpu.library, file.path(), {.device = "cuda", .kv_tokens = 50'000'000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDeviceMemory);
  // 3 layers of one head of 32, keys and values in bf16: 384 bytes a token.
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("a card of paper has 2147483648 bytes free"),
                                             HasSubstr("19200000000 of KV cache"), HasSubstr("--kv-tokens")));
  EXPECT_THAT(gpu.paper.leaks(), IsEmpty());

  log.clear();
  const auto on_cpu = Model::open(gpu.library, file.path(), {.device = "auto", .kv_tokens = 50'000'000});
  EXPECT_TRUE(!on_cpu.ok() || on_cpu->info().device == "cpu");
  ASSERT_FALSE(log.empty());
  EXPECT_THAT(log.front(), AllOf(HasSubstr("running on the CPU"), HasSubstr("19200000000 of KV cache")));
}

TEST(GpuTest, AModelOpensAndAnswersAndAllIsGivenBack) {
  PaperLibrary gpu;
  const TemporaryFile file(paper_chat());
  {
    const auto model = Model::open(gpu.library, file.path(), {.device = "cuda"});
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->info().device, "cuda:0");
    EXPECT_EQ(model->info().device_name, "a card of paper");
    EXPECT_EQ(model->info().kv_dtype, "bf16");
    const auto scored = score(*model, {.text = TokenIds{{5, 6, 7, 8}}, .on_logits = {}});
    EXPECT_TRUE(scored.ok()) << scored.error().message;
  }
  EXPECT_THAT(gpu.paper.leaks(), IsEmpty());
  EXPECT_THAT(gpu.paper.faults(), IsEmpty());
}

TEST(GpuTest, ALostDeviceIsAnErrorThatStays) {
  PaperLibrary gpu;
  const TemporaryFile file(paper_chat());
  {
    const auto model = Model::open(gpu.library, file.path(), {.device = "cuda"});
    ASSERT_TRUE(model.ok()) << model.error().message;
    gpu.paper.fail_call("cuMemcpyDtoHAsync", 1, 719, true);
    for (int again = 0; again < 3; ++again) {
      const auto scored = score(*model, {.text = TokenIds{{5, 6, 7, 8}}, .on_logits = {}});
      ASSERT_FALSE(scored.ok());
      EXPECT_EQ(scored.error().code, ErrorCode::kDeviceLost);
    }
  }
  EXPECT_THAT(gpu.paper.leaks(), IsEmpty());
}

TEST(GpuTest, ADeviceThatFailsWhileOpeningIsAnError) {
  PaperLibrary gpu;
  const TemporaryFile file(paper_chat());
  for (const char* entry : {"cuMemCreate", "cuLaunchKernelEx", "cuGraphUpload", "cuMemHostAlloc"}) {
    gpu.paper.fail_call(entry, 2, 719);
    const auto model = Model::open(gpu.library, file.path(), {.device = "cuda"});
    EXPECT_FALSE(model.ok()) << entry;
    EXPECT_THAT(gpu.paper.leaks(), IsEmpty()) << entry;
  }
}

// Without NVRTC a release has what it was packed with, and code for any sizes.
TEST(GpuTest, SizesThatAreNotPackedAreServedWithoutACompiler) {
  std::vector<std::string> log;
  PaperLibrary gpu(&log);
  const auto paper = PaperDriver::compiler();
  std::vector<device::cuda::PackedKernel> packed;
  device::DeviceCaps caps = device::gpu_caps("h200").value();
  caps.gpu = PaperLibrary::caps();
  const std::vector<device::CompileUnit> units = any_size_units(caps).value();
  for (const device::CompileUnit& unit : units) {
    packed.push_back({paper->pack_key(unit).value(), paper->cubin(unit).value()});
  }
  const auto with_pack = [&](const std::vector<std::byte>& bytes) {
    gpu.library.state()->compiler = std::make_shared<device::cuda::Compiler>(device::cuda::CompilerOptions{
        .sources = kernels::embedded_sources(), .pack = device::cuda::KernelPack::open(bytes).value()});
  };
  const TemporaryFile file(paper_chat());
  const std::vector<std::byte> pack = device::cuda::write_kernel_pack("paper", packed, 1);
  with_pack(pack);
  {
    const auto model = Model::open(gpu.library, file.path(), {.device = "cuda"});
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_THAT(log, testing::Contains(HasSubstr("slower ones that take any sizes")));
    const auto scored = score(*model, {.text = TokenIds{{5, 6, 7, 8}}, .on_logits = {}});
    EXPECT_TRUE(scored.ok()) << scored.error().message;
    std::set<std::string> kernels;
    for (const auto& launch : gpu.paper.launches()) kernels.insert(launch.kernel);
    EXPECT_THAT(kernels, testing::Contains("attend_any_dims"));
  }
  EXPECT_THAT(gpu.paper.faults(), IsEmpty());
  // A pack without them refuses, and says what is missing.
  packed.erase(packed.begin(), packed.end() - 1);
  const std::vector<std::byte> nearly_empty = device::cuda::write_kernel_pack("paper", packed, 1);
  with_pack(nearly_empty);
  const auto refused = Model::open(gpu.library, file.path(), {.device = "cuda"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDeviceMissing);
}

}  // namespace
}  // namespace pagoda::api
