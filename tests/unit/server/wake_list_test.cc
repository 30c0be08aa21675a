#include "server/http/wake_list.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace pagoda::server::http {
namespace {

TEST(WakeList, AnnouncesOnceUntilDrained) {
  int announced = 0;
  WakeList list([&announced] { ++announced; });
  std::vector<int> woken(3);
  std::vector<std::shared_ptr<WakeNode>> nodes;
  for (int& count : woken) {
    nodes.push_back(std::make_shared<WakeNode>());
    nodes.back()->woken = [&count] { ++count; };
  }
  for (int i = 0; i < 5; ++i) {
    for (const auto& node : nodes) list.wake(node);
  }
  EXPECT_EQ(announced, 1);
  list.drain();
  EXPECT_EQ(woken, (std::vector{1, 1, 1}));
  list.wake(nodes[1]);
  EXPECT_EQ(announced, 2);
  list.drain();
  EXPECT_EQ(woken, (std::vector{1, 2, 1}));
}

TEST(WakeList, ANodeThatIsGoneIsKeptUntilItIsDrained) {
  WakeList list([] {});
  auto node = std::make_shared<WakeNode>();
  const std::weak_ptr<WakeNode> seen = node;
  list.wake(node);
  node.reset();
  EXPECT_FALSE(seen.expired());
  list.drain();
  EXPECT_TRUE(seen.expired());
}

/// No news is lost: after the last wake of a node there is a drain that wakes it.
TEST(WakeList, NothingIsLostBetweenThreads) {
  std::mutex mutex;
  std::condition_variable changed;
  int announced = 0;
  bool over = false;
  WakeList list([&] {
    const std::scoped_lock lock(mutex);
    ++announced;
    changed.notify_one();
  });
  constexpr int kThreads = 3, kNodes = 7, kRounds = 20'000;
  struct Item {
    std::shared_ptr<WakeNode> node = std::make_shared<WakeNode>();
    std::atomic<int> told{0};
    int seen = 0;
  };
  std::vector<Item> items(kNodes);
  for (Item& item : items) item.node->woken = [&item] { item.seen = item.told.load(); };
  std::thread drainer([&] {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return announced > 0 || over; });
        if (announced == 0) return;
        announced = 0;
      }
      list.drain();
    }
  });
  std::vector<std::thread> tellers;
  for (int t = 0; t < kThreads; ++t) {
    tellers.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        Item& item = items[static_cast<std::size_t>(i * 5 + t) % kNodes];
        ++item.told;
        list.wake(item.node);
      }
    });
  }
  for (std::thread& teller : tellers) teller.join();
  {
    const std::scoped_lock lock(mutex);
    over = true;
    changed.notify_one();
  }
  drainer.join();
  for (const Item& item : items) EXPECT_EQ(item.seen, item.told.load());
}

}  // namespace
}  // namespace pagoda::server::http
