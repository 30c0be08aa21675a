#include "server/workers.h"

#include <algorithm>

namespace pagoda::server {

Workers::Workers(int num_threads) : most_large_(std::max(1, num_threads - 1)) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
}

Workers::~Workers() {
  Tasks dropped_small;
  Tasks dropped_large;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    dropped_small.swap(small_);
    dropped_large.swap(large_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(Size size, std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    (size == Size::kLarge ? large_ : small_).push_back(std::move(task));
  }
  changed_.notify_one();
}

void Workers::work() {
  for (;;) {
    std::function<void()> task;
    bool is_large = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !small_.empty() || may_run_large(); });
      if (stopping_) return;
      is_large = small_.empty();
      Tasks& tasks = is_large ? large_ : small_;
      task = std::move(tasks.front());
      tasks.pop_front();
      num_large_ += is_large ? 1 : 0;
    }
    task();
    task = {};  // what it holds may be large too
    if (!is_large) continue;
    {
      const std::scoped_lock lock(mutex_);
      --num_large_;
    }
    changed_.notify_one();
  }
}

}  // namespace pagoda::server
