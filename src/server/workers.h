// Threads for what takes longer than a connection's thread may: reading large requests, templates, tokenizing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pagoda::server {

/// Runs tasks in their order. At most as many wait as there are connections: each has one request at a time.
class Workers {
 public:
  explicit Workers(int num_threads);
  ~Workers();  ///< what runs is finished; what waits is dropped
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pagoda::server
