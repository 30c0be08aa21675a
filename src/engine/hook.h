#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace pagoda::engine {

/// A callback that one thread calls and others replace. Whoever calls never waits: while the hook is being replaced the
/// call is left out, and the one who replaces it finds what it would have told by looking once afterwards.
class Hook {
 public:
  /// When this returns, the hook before is not running and will not run again, and all that was done before a call that
  /// was left out can be seen. Not from inside the hook.
  void set(std::function<void()> hook) {
    State free = State::kFree;
    while (!state_.compare_exchange_weak(free, State::kTaken, std::memory_order_acquire)) {
      free = State::kFree;
      std::this_thread::yield();  // for as long as the hook runs, which must not block
    }
    std::swap(hook_, hook);
    state_.exchange(State::kFree, std::memory_order_acq_rel);
  }

  /// From one thread at a time.
  void call() {
    State seen = State::kFree;
    while (!state_.compare_exchange_weak(seen, seen == State::kFree ? State::kTaken : State::kMissed,
                                         std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    if (seen != State::kFree) return;
    if (hook_) hook_();
    state_.store(State::kFree, std::memory_order_release);
  }

 private:
  /// kMissed is kTaken by `set`, and a call came meanwhile: the exchange that ends `set` reads it, so that what the
  /// caller did before is seen.
  enum class State : int { kFree, kTaken, kMissed };

  std::atomic<State> state_{State::kFree};
  std::function<void()> hook_;
};

}  // namespace pagoda::engine
