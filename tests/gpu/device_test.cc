// The CUDA device layer on a real GPU: streams, memory, kernels, capture, updates, the compiler's cache.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "device/cuda/compiler.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"

namespace pagoda::device::cuda {
namespace {

struct ScaleParams {
  const float* input;
  float* output;
  const std::int64_t* count;
  float factor;
};

constexpr EmbeddedSource kSources[] = {{"test/scale.h", R"(#pragma once
struct ScaleParams { const float* input; float* output; const long long* count; float factor; };
)"},
                                       {"test/scale.cu", R"(#include "test/scale.h"
extern "C" __global__ void scale(const __grid_constant__ ScaleParams p) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < *p.count; i += gridDim.x * blockDim.x) {
    p.output[i] = FACTOR * p.factor * p.input[i];
  }
}
extern "C" __global__ void two_parameters(int a, int b) {}
)"}};

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto driver = Driver::load();
    ASSERT_TRUE(driver.ok()) << driver.error().message;
    auto context = Context::create(*driver, 0);
    ASSERT_TRUE(context.ok()) << context.error().message;
    context_ = *context;
    auto nvrtc = Nvrtc::load();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    nvrtc_ = *nvrtc;
    unit_ = {.source = "test/scale.cu", .defines = {"FACTOR=2"}, .architecture = context_->caps().architecture()};
  }

  std::shared_ptr<Compiler> compiler(const std::string& folder = {}) {
    return std::make_shared<Compiler>(CompilerOptions{.cache_folder = folder, .sources = kSources, .nvrtc = nvrtc_});
  }

  ContextPtr context_;
  std::shared_ptr<const Nvrtc> nvrtc_;
  CompileUnit unit_;
};

TEST_F(OnGpu, ACapturedKernelIsReplayedAndUpdated) {
  CudaStream stream(context_);
  MemoryPool pool(context_, 64 << 20);
  ModuleLoader loader(context_, compiler());
  const auto kernel = loader.kernel<ScaleParams>(unit_, "scale");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(kernel->resources().local_bytes, 0);

  constexpr std::int64_t kCount = 100'003;
  auto input = DeviceBuffer<float>::create(pool, stream, kCount);
  auto output = DeviceBuffer<float>::create(pool, stream, kCount);
  auto count = DeviceBuffer<std::int64_t>::create(pool, stream, 1);
  ASSERT_TRUE(input.ok() && output.ok() && count.ok());
  auto host = PinnedBuffer<float>::create(context_, kCount);
  auto host_count = PinnedBuffer<std::int64_t>::create(context_, 1);
  ASSERT_TRUE(host.ok() && host_count.ok());
  std::iota(host->host().begin(), host->host().end(), 1.0f);
  host_count->host()[0] = kCount;
  host->upload(0, kCount, input->data(), stream);
  host_count->upload(0, 1, count->data(), stream);

  const LaunchConfig config{.grid = {.x = 40}, .block = {.x = 256}};
  ScaleParams params{input->data(), output->data(), count->data(), 3};
  GraphCapture capture(stream);
  const GraphNode node = kernel->launch(stream, config, params);
  ASSERT_NE(node, nullptr);
  const Graph graph = capture.finish();
  EXPECT_EQ(graph.num_nodes(), 1);

  const auto expect = [&](float factor, std::int64_t defined) {
    host->download(0, kCount, output->data(), stream);
    const auto values = host->host();
    for (std::int64_t i = 0; i < defined; ++i)
      ASSERT_EQ(values[static_cast<std::size_t>(i)], factor * static_cast<float>(i + 1));
  };
  graph.launch(stream);
  expect(6, kCount);
  params.factor = 5;
  graph.update(node, *kernel, {.grid = {.x = 7}, .block = {.x = 256}}, params);
  graph.launch(stream);
  expect(10, kCount);
  // A value in a buffer changes without touching the graph.
  params.factor = 1;
  graph.update(node, *kernel, config, params);
  host_count->host()[0] = 17;
  host_count->upload(0, 1, count->data(), stream);
  graph.launch(stream);
  host->download(0, kCount, output->data(), stream);
  EXPECT_EQ(host->host()[16], 2 * 17.0f);
  EXPECT_EQ(host->host()[17], 10 * 18.0f);
  EXPECT_GE(pool.stats().used_bytes, 2 * kCount * 4);
}

TEST_F(OnGpu, AnAddressRangeGrowsInPlace) {
  auto range = AddressRange::reserve(context_, std::int64_t{64} << 30);
  ASSERT_TRUE(range.ok()) << range.error().message;
  const std::byte* before = range->data();
  ASSERT_TRUE(range->map(1 << 20).ok());
  const std::int64_t first = range->mapped_bytes();
  ASSERT_TRUE(range->map(first + 1).ok());
  EXPECT_GT(range->mapped_bytes(), first);
  EXPECT_EQ(range->data(), before);
  CudaStream stream(context_);
  context_->driver().check(
      context_->api().set_bytes_async(reinterpret_cast<DeviceAddress>(range->data()), 0x5a,
                                      static_cast<std::size_t>(range->mapped_bytes()), stream.handle()),
      "filling");
  stream.synchronize();
  auto too_much = AddressRange::reserve(context_, std::int64_t{1} << 40);
  ASSERT_TRUE(too_much.ok());
  const auto refused = too_much->map(std::int64_t{1} << 40);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDeviceMemory);
}

TEST_F(OnGpu, AWrongParameterStructIsRefused) {
  ModuleLoader loader(context_, compiler());
  EXPECT_FALSE((loader.kernel<std::int64_t>(unit_, "scale").ok()));
  EXPECT_FALSE((loader.kernel<ScaleParams>(unit_, "two_parameters").ok()));
  EXPECT_FALSE((loader.kernel<ScaleParams>(unit_, "nothing").ok()));
}

TEST_F(OnGpu, EventsTimeAndOrder) {
  CudaStream first(context_);
  CudaStream second(context_);
  Event begin(context_, true);
  Event end(context_, true);
  begin.record(first);
  second.wait_for(begin);
  end.record(second);
  end.synchronize();
  EXPECT_TRUE(begin.done());
  EXPECT_GE(end.elapsed_ms_since(begin), 0.0f);
}

}  // namespace
}  // namespace pagoda::device::cuda
