#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace pagoda {

/// A fixed team of threads, each pinned to a CPU of the process's affinity mask. The caller of `run` is worker 0, so a
/// pool of one has no thread of its own. Between jobs workers spin for a bounded time, then sleep.
class ThreadPool {
 public:
  /// `body(context, worker)` is called once on each worker.
  using Body = void (*)(void* context, int worker);

  /// `pin` false leaves placement to the system.
  explicit ThreadPool(int num_threads, bool pin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Runs `body` on every worker and returns when all are done. Only one thread may call this at a time; not reentrant.
  void run(Body body, void* context);

  /// CPUs this process may use: its affinity mask, bounded by its control groups' quotas; at least 1.
  static int default_threads();

 private:
  void work(int worker);
  void wait_for_job(std::uint64_t seen);

  int spins_ = 0;
  std::vector<std::thread> threads_;
  Body body_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> job_{0};      // number of the job to run; the highest bit means: leave
  alignas(64) std::atomic<std::int32_t> running_{0};   // workers that have not finished the job
  alignas(64) std::atomic<std::int32_t> sleepers_{0};  // workers waiting on `wake_`
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace pagoda
