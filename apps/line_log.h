// Lines for people on stderr, from threads that must not wait for whoever reads them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace pagoda::apps {

/// Gives up when stderr has taken nothing for so long, or takes nothing any more.
void write_stderr(std::string_view text, std::chrono::milliseconds patience);

/// Keeps lines until a thread of its own has written them: 1 MiB of them, and what comes then is lost and counted, and
/// the loss told where it was. Any thread may write.
class LineLog {
 public:
  LineLog();
  ~LineLog() { finish(); }
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  /// Never waits for stderr.
  void write(std::string_view line);

  /// Waits for what is kept, but not for a reader that takes nothing. Nothing is written afterwards. From one thread.
  void finish();

  std::int64_t num_lost() const { return lost_; }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string kept_;
  std::atomic<std::int64_t> lost_{0};
  std::int64_t lost_untold_ = 0;
  bool finishing_ = false;
  std::thread thread_;
};

}  // namespace pagoda::apps
