// The paper driver is as strict as the real one: each rule is broken once, and found out.
#include "fixtures/paper_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cuda/graph.h"
#include "kernels/kv_store/cuda_block_tables.h"

namespace pagoda::device::cuda {
namespace {

using fixtures::PaperDriver;
using fixtures::PaperLaunch;
using kernels::CudaBlockTablesParams;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const CompileUnit kUnit{
    .source = "kernels/kv_store/cuda_block_tables.cu", .defines = {"THREADS=128"}, .architecture = "sm_90"};

struct Paper {
  PaperDriver driver;
  std::unique_ptr<CudaDevice> device = driver.open();
  const ContextPtr& context() const { return device->context(); }
  Kernel<CudaBlockTablesParams> kernel() {
    return device->kernel<CudaBlockTablesParams>(kUnit, "block_tables").value();
  }
};

TEST(PaperDriver, LooksLikeTheCardItIsMadeFor) {
  Paper paper;
  EXPECT_EQ(paper.device->caps().gpu, gpu_caps("h200").value().gpu);
  EXPECT_EQ(paper.device->caps().name, "a card of paper");
  paper.device.reset();
  EXPECT_THAT(paper.driver.leaks(), IsEmpty());
}

TEST(PaperDriver, CopiesTakeTheBytesThatAreThereWhenTheyRun) {
  Paper paper;
  CudaStream stream(paper.context());
  const Memory memory = paper.device->allocate(100, "a test").value();
  auto buffer = PinnedBytes::create(paper.context(), 100).value();
  std::byte* const host = buffer.host();
  host[7] = std::byte{1};
  buffer.upload(0, 100, memory.data(), stream);
  host[7] = std::byte{2};  // too early: a real device may read it late too
  stream.synchronize();
  EXPECT_EQ(memory.data()[7], std::byte{2});
  host[7] = std::byte{3};
  buffer.upload(0, 100, memory.data(), stream);
  EXPECT_EQ(memory.data()[7], std::byte{2}) << "nothing waits for it yet";
  buffer.host();
  EXPECT_EQ(memory.data()[7], std::byte{3});
  EXPECT_THAT(paper.driver.faults(), IsEmpty());
}

TEST(PaperDriver, AStreamWaitsForAnothersEvent) {
  Paper paper;
  CudaStream first(paper.context());
  CudaStream second(paper.context());
  Event event(paper.context());
  const auto kernel = paper.kernel();
  std::vector<std::int64_t> order;
  paper.driver.on_launch = [&](const PaperLaunch& launch) {
    order.push_back(launch.as<CudaBlockTablesParams>().count);
  };
  kernel.launch(first, {.grid = {}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 1});
  event.record(first);
  kernel.launch(first, {.grid = {}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 2});
  second.wait_for(event);
  kernel.launch(second, {.grid = {}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 3});
  EXPECT_THAT(order, IsEmpty());
  second.synchronize();
  EXPECT_THAT(order, ElementsAre(1, 3)) << "no more than has to run";
  EXPECT_TRUE(event.done());
  first.synchronize();
  EXPECT_THAT(order, ElementsAre(1, 3, 2));
}

TEST(PaperDriver, WhatMayNotBeCapturedBreaksTheCapture) {
  Paper paper;
  CudaStream stream(paper.context());
  const auto kernel = paper.kernel();
  GraphCapture capture(stream);
  kernel.launch(stream, {.grid = {}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 1});
  EXPECT_THROW(stream.synchronize(), DeviceError);
  EXPECT_THROW(capture.finish(), DeviceError);
  EXPECT_THAT(paper.driver.faults(), Contains(HasSubstr("cuStreamSynchronize while capturing")));
}

TEST(PaperDriver, ReplaysRunWhatWasCapturedAndUpdated) {
  Paper paper;
  CudaStream stream(paper.context());
  const auto kernel = paper.kernel();
  GraphCapture capture(stream);
  const GraphNode node =
      kernel.launch(stream, {.grid = {.x = 3}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 1});
  kernel.launch(stream, {.grid = {.x = 5}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 2});
  const Graph graph = capture.finish();
  EXPECT_EQ(graph.num_nodes(), 2);
  graph.launch(stream);
  graph.update(node, kernel, {.grid = {.x = 7}, .block = {}}, {.tables = nullptr, .changes = nullptr, .count = 9});
  graph.launch(stream);
  stream.synchronize();
  std::vector<std::pair<std::uint32_t, std::int64_t>> seen;
  for (const PaperLaunch& launch : paper.driver.launches()) {
    EXPECT_EQ(launch.graph, 0);
    seen.emplace_back(launch.grid.x, launch.as<CudaBlockTablesParams>().count);
  }
  EXPECT_THAT(seen, ElementsAre(std::pair(3u, 1), std::pair(5u, 2), std::pair(7u, 9), std::pair(5u, 2)));
}

// CASES F2: an address that does not last is seen in what was captured.
TEST(PaperDriver, AnAddressWhoseMemoryIsGoneIsFound) {
  Paper paper;
  CudaStream stream(paper.context());
  const auto kernel = paper.kernel();
  std::optional<Memory> memory = paper.device->allocate(64, "a test").value();
  auto* const tables = reinterpret_cast<std::int32_t*>(memory->data());
  EXPECT_TRUE(paper.driver.lasting(tables));
  GraphCapture capture(stream);
  kernel.launch(stream, {.grid = {}, .block = {}}, {.tables = tables, .changes = nullptr, .count = 1});
  const Graph graph = capture.finish();
  EXPECT_THAT(paper.driver.addresses(paper.driver.graphs()[0].nodes[0]), ElementsAre(tables));
  memory.reset();
  EXPECT_FALSE(paper.driver.lasting(tables));
  graph.launch(stream);
  stream.synchronize();
  EXPECT_THAT(paper.driver.faults(), ElementsAre(HasSubstr("an address without memory")));
}

TEST(PaperDriver, MemoryOfAPoolDoesNotLast) {
  Paper paper;
  CudaStream stream(paper.context());
  MemoryPool pool(paper.context(), 0);
  const DeviceAddress address = pool.allocate(64, stream).value();
  EXPECT_FALSE(paper.driver.lasting(reinterpret_cast<const void*>(address)));
  pool.free(address, stream);
}

TEST(PaperDriver, ACardHasAnEnd) {
  Paper paper;
  const std::int64_t free = paper.context()->free_bytes();
  const auto refused = paper.device->allocate(free + 1, "a large test");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDeviceMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("a large test"));
}

TEST(PaperDriver, TheNthCallFailsAndALostDeviceStaysLost) {
  Paper paper;
  paper.driver.fail_call("cuStreamCreate", 2, 2);
  const CudaStream stream(paper.context());
  EXPECT_THROW(CudaStream{paper.context()}, DeviceError);
  EXPECT_NO_THROW(CudaStream{paper.context()});
  paper.driver.fail_call("cuEventCreate", 1, 719, true);
  EXPECT_THROW(Event{paper.context()}, DeviceError);
  EXPECT_THROW(stream.synchronize(), DeviceError);
}

TEST(PaperDriver, SharedMemoryHasToBeAllowed) {
  Paper paper;
  CudaStream stream(paper.context());
  const auto kernel = paper.kernel();
  const LaunchConfig config{.grid = {}, .block = {}, .shared_bytes = 100 * 1024};
  EXPECT_THROW(kernel.launch(stream, config, {}), DeviceError);
  kernel.allow_shared_bytes(100 * 1024);
  EXPECT_NO_THROW(kernel.launch(stream, config, {}));
  EXPECT_THROW(kernel.allow_shared_bytes(300 * 1024), DeviceError);
}

}  // namespace
}  // namespace pagoda::device::cuda
