#include "apps/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

#include "base/check.h"

namespace pagoda::apps {
namespace {

// What the signal handler may touch: the number of signals so far, and a pipe that wakes the watching thread.
std::atomic<int> signals{0};
std::atomic<int> wake_descriptor{-1};

void on_signal(int) {
  if (signals.fetch_add(1) > 0) {
    constexpr char kReset[] = "\n";
    (void)!write(STDERR_FILENO, kReset, sizeof kReset - 1);
    _exit(130);
  }
  const char byte = 1;
  (void)!write(wake_descriptor.load(), &byte, 1);
}

}  // namespace

struct Interrupt::State {
  std::function<void()> stop;
  int pipe[2] = {-1, -1};
  std::vector<std::pair<int, struct sigaction>> before;
  std::thread watcher{};
};

Interrupt::Interrupt(std::function<void()> stop, const std::vector<int>& also)
    : state_(new State{.stop = std::move(stop), .before = {}}) {
  PAGODA_CHECK(pipe(state_->pipe) == 0, "no pipe");
  signals.store(0);
  wake_descriptor.store(state_->pipe[1]);
  state_->watcher = std::thread([state = state_] {
    char byte = 0;
    if (read(state->pipe[0], &byte, 1) == 1 && byte == 1) state->stop();
  });
  struct sigaction action = {};
  action.sa_handler = on_signal;
  const auto take = [&](int signal) {
    struct sigaction before = {};
    sigaction(signal, &action, &before);
    state_->before.emplace_back(signal, before);
  };
  take(SIGINT);
  for (const int signal : also) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) take(signal);
  }
}

Interrupt::~Interrupt() {
  for (const auto& [signal, before] : state_->before) sigaction(signal, &before, nullptr);
  const char byte = 0;
  (void)!write(state_->pipe[1], &byte, 1);
  state_->watcher.join();
  wake_descriptor.store(-1);
  close(state_->pipe[0]);
  close(state_->pipe[1]);
  delete state_;
}

}  // namespace pagoda::apps
