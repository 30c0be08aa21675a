// Threads for what takes longer than a connection's thread may: reading large requests, templates, tokenizing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pagoda::server {

/// Runs tasks of each size in their order. At most as many wait as there are connections: each has one request at a
/// time. Large ones leave one thread to the small ones, which so never wait for a large one, if there are two or more.
class Workers {
 public:
  enum class Size { kSmall, kLarge };

  explicit Workers(int num_threads);
  ~Workers();  ///< what runs is finished; what waits is dropped
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(Size size, std::function<void()> task);

 private:
  using Tasks = std::deque<std::function<void()>>;

  void work();
  bool may_run_large() const { return !large_.empty() && num_large_ < most_large_; }

  const int most_large_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Tasks small_;
  Tasks large_;
  int num_large_ = 0;  ///< that run
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pagoda::server
