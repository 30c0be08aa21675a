#include "apps/line_log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/format.h"

namespace pagoda::apps {
namespace {

constexpr std::size_t kMostKept = 1u << 20;
constexpr auto kPatienceAtEnd = std::chrono::milliseconds(500);

/// How much of the front of `text` stderr took: 0, nothing in this time; less, it takes nothing any more.
ssize_t put(std::string_view text, std::chrono::milliseconds patience) {
  pollfd descriptor = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&descriptor, 1, static_cast<int>(patience.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return 0;
  // A pipe that has room has it for this much, so that the write does not block.
  const ssize_t size =
      ready < 0 ? -1 : ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
  return size < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : size;
}

}  // namespace

void write_stderr(std::string_view text, std::chrono::milliseconds patience) {
  while (!text.empty()) {
    const ssize_t size = put(text, patience);
    if (size <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

LineLog::LineLog() : thread_([this] { run(); }) {}

void LineLog::write(std::string_view line) {
  {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() + line.size() >= kMostKept) {
      ++lost_;
      ++lost_untold_;
      return;
    }
    kept_.append(line).append("\n");
  }
  changed_.notify_one();
}

void LineLog::finish() {
  {
    const std::scoped_lock lock(mutex_);
    finishing_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LineLog::run() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kGlance = std::chrono::milliseconds(100);
  std::string text;  // of it, what stands from `at` on is still to be written
  std::size_t at = 0;
  auto end = Clock::time_point::max();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (at == text.size()) {
        changed_.wait(lock, [this] { return finishing_ || !kept_.empty(); });
        if (kept_.empty()) return;
        text = std::exchange(kept_, {});
        at = 0;
        if (const std::int64_t lost = std::exchange(lost_untold_, 0); lost > 0) {
          text += pagoda::format("pagoda: warning: {} lines are missing here: nobody read what stood before\n", lost);
        }
      }
      if (finishing_) end = std::min(end, Clock::now() + kPatienceAtEnd);
    }
    const ssize_t size = put(std::string_view(text).substr(at), kGlance);
    if (size < 0) lost_ += std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n');
    at = size < 0 ? text.size() : at + static_cast<std::size_t>(size);
    if (size <= 0 && Clock::now() >= end) return;
  }
}

}  // namespace pagoda::apps
