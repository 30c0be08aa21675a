#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace pagoda {
namespace {

struct Marks {
  std::vector<int> seen;
};

TEST(ThreadPool, EveryWorkerRunsEveryJobOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    Marks marks{std::vector<int>(static_cast<std::size_t>(threads), 0)};
    for (int job = 0; job < 500; ++job) {
      pool.run(
          [](void* context, int worker) { ++static_cast<Marks*>(context)->seen[static_cast<std::size_t>(worker)]; },
          &marks);
    }
    for (const int count : marks.seen) EXPECT_EQ(count, 500) << threads;
  }
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  for (int job = 0; job < 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([](void* context, int worker) { *static_cast<std::atomic<int>*>(context) += worker; }, &sum);
  }
  EXPECT_EQ(sum, 20);
}

TEST(ThreadPool, DefaultIsAtLeastOne) { EXPECT_GE(ThreadPool::default_threads(), 1); }

}  // namespace
}  // namespace pagoda
