#include "server/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace pagoda::server {
namespace {

using Size = Workers::Size;
constexpr auto kLong = std::chrono::seconds(20);

TEST(Workers, SmallTasksDoNotWaitForLargeOnes) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> running{0};
  std::promise<void> small_ran;
  Workers workers(3);
  for (int i = 0; i < 5; ++i) {
    workers.run(Size::kLarge, [&, released] {
      ++running;
      released.wait();
    });
  }
  workers.run(Size::kSmall, [&] { small_ran.set_value(); });
  EXPECT_EQ(small_ran.get_future().wait_for(kLong), std::future_status::ready);
  while (running < 2) std::this_thread::yield();
  EXPECT_EQ(running, 2);
  release.set_value();
}

TEST(Workers, EveryTaskRunsOnOneThread) {
  std::atomic<int> ran{0};
  std::promise<void> all;
  Workers workers(1);
  for (int i = 0; i < 22; ++i) {
    workers.run(i % 3 == 0 ? Size::kLarge : Size::kSmall, [&] {
      if (++ran == 22) all.set_value();
    });
  }
  EXPECT_EQ(all.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(Workers, LargeTasksRunOneAfterAnotherInTheirOrder) {
  std::vector<int> order;  // one thread at a time writes it
  std::promise<void> all;
  Workers workers(2);
  for (int i = 0; i < 7; ++i) {
    workers.run(Size::kLarge, [&, i] {
      order.push_back(i);
      if (order.size() == 7) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Workers, WhatWaitsAtTheEndIsDropped) {
  std::atomic<int> ran{0};
  std::promise<void> begun;
  std::promise<void> release;
  auto workers = std::make_unique<Workers>(1);
  workers->run(Size::kSmall, [&] {
    begun.set_value();
    release.get_future().wait();
    ++ran;
  });
  begun.get_future().wait();
  for (const Size size : {Size::kSmall, Size::kLarge}) workers->run(size, [&] { ++ran; });
  std::thread ends([&] { workers.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  release.set_value();
  ends.join();
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace pagoda::server
