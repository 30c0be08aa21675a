#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "base/check.h"
#include "base/control_groups.h"

namespace pagoda {
namespace {

constexpr std::uint64_t kLeave = std::uint64_t{1} << 63;
// About 50 µs of pauses on a 3 GHz core: longer than the serial stretches between a step's parallel jobs, far shorter
// than a time slice.
constexpr int kSpins = 2000;
// With more threads than CPUs the one waited for may need the CPU that spins.
constexpr int kSpinsCrowded = 20;

void pause() { __builtin_ia32_pause(); }

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

void pin_to(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // A refusal (a cgroup changed meanwhile) costs speed only.
  (void)pthread_setaffinity_np(thread, sizeof set, &set);
}

}  // namespace

int ThreadPool::default_threads() {
  const int allowed = std::max(1, static_cast<int>(allowed_cpus().size()));
  const int quota = granted_cpus();
  return quota > 0 ? std::min(allowed, quota) : allowed;
}

ThreadPool::ThreadPool(int num_threads, bool pin) {
  PAGODA_CHECK(num_threads >= 1, "num_threads {}", num_threads);
  const std::vector<int> cpus = allowed_cpus();
  const bool crowded = num_threads > static_cast<int>(cpus.size());
  spins_ = crowded ? kSpinsCrowded : kSpins;
  for (int worker = 1; worker < num_threads; ++worker) {
    threads_.emplace_back([this, worker] { work(worker); });
    // Worker 0 is the caller's thread, which is not ours to pin; the others leave the first CPU to it.
    if (pin && !crowded) {
      pin_to(threads_.back().native_handle(), cpus[static_cast<std::size_t>(worker)]);
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    job_.fetch_or(kLeave);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(Body body, void* context) {
  if (threads_.empty()) {
    body(context, 0);
    return;
  }
  body_ = body;
  context_ = context;
  running_.store(static_cast<std::int32_t>(threads_.size()), std::memory_order_relaxed);
  // Sequentially consistent with a worker's `sleepers_` increment: either it sees the new job, or we see the sleeper.
  job_.fetch_add(1);
  if (sleepers_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  body(context, 0);
  for (int spins = 0; spins < spins_; ++spins) {
    if (running_.load(std::memory_order_acquire) == 0) return;
    pause();
  }
  for (std::int32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    running_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::wait_for_job(std::uint64_t seen) {
  for (int spins = 0; spins < spins_; ++spins) {
    if (job_.load(std::memory_order_acquire) != seen) return;
    pause();
  }
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1);
  wake_.wait(lock, [&] { return job_.load() != seen; });
  sleepers_.fetch_sub(1);
}

void ThreadPool::work(int worker) {
  for (std::uint64_t seen = 0;;) {
    wait_for_job(seen);
    seen = job_.load(std::memory_order_acquire);
    if ((seen & kLeave) != 0) return;
    body_(context_, worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

}  // namespace pagoda
