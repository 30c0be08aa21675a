#include "device/stream.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pagoda::device {
namespace {

struct AddParams {
  std::int64_t* values;
  std::int64_t amount;
};

void add(const AddParams& params, HostRange range) {
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) params.values[unit] += params.amount;
}

TEST(HostStream, EveryUnitRunsOnce) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    HostStream stream(pool);
    for (const std::int64_t units : {0, 1, 2, 7, 100, 1001}) {
      for (const std::int64_t grain : {1, 3, 64}) {
        std::vector<std::int64_t> values(static_cast<std::size_t>(units), 0);
        stream.launch(add, AddParams{values.data(), 5}, units, grain);
        EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}), 5 * units);
        for (const std::int64_t value : values) EXPECT_EQ(value, 5);
      }
    }
  }
}

TEST(HostStream, ACapturedLaunchRunsOnReplayOnly) {
  ThreadPool pool(2);
  HostStream stream(pool);
  std::vector<std::int64_t> values(33, 0);
  HostGraph graph;
  stream.begin_capture(graph);
  stream.launch(add, AddParams{values.data(), 1}, 33);
  stream.launch(add, AddParams{values.data(), 10}, 32);
  stream.end_capture();
  EXPECT_EQ(graph.num_nodes(), 2u);
  EXPECT_EQ(values[0], 0);
  stream.replay(graph);
  stream.replay(graph);
  EXPECT_EQ(values[0], 22);
  EXPECT_EQ(values[32], 2);
}

}  // namespace
}  // namespace pagoda::device
