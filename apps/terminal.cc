#include "apps/terminal.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/line_log.h"
#include "base/format.h"

namespace pagoda::apps {
namespace {

using Clock = std::chrono::steady_clock;

/// Draws at most ten times a second, and wipes its line when it goes.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }

  void show(const Progress& progress) {
    const Clock::time_point now = Clock::now();
    if (now - begin_ < std::chrono::milliseconds(500) || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    const std::string stage(to_string(progress.stage));
    if (progress.total == 0) {
      std::fprintf(stderr, "\r\033[K%s", stage.c_str());
    } else {
      std::fprintf(stderr, "\r\033[K%s: %.0f %%", stage.c_str(),
                   100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total));
    }
    std::fflush(stderr);
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_;
  bool drawn_ = false;
};

}  // namespace

ProgressSink progress_line() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [line = std::make_shared<ProgressLine>()](const Progress& progress) { line->show(progress); };
}

void print_error(std::string sentence) {
  for (char& c : sentence) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  std::fflush(stderr);
  // The program ends now, even if nobody reads why.
  write_stderr("pagoda: error: " + sentence + "\n", std::chrono::seconds(1));
}

double rate(std::int64_t tokens, double ms) { return ms > 0 ? 1000.0 * static_cast<double>(tokens) / ms : 0; }

namespace {

/// ", prefill 31 tokens at 250 tok/s"; nothing was measured where there are no tokens or no time.
std::string figure(std::string_view what, std::int64_t tokens, double ms, int decimals) {
  if (tokens == 0 || ms <= 0) return {};
  return pagoda::format(", {} {} tokens at {:.{}f} tok/s", what, tokens, rate(tokens, ms), decimals);
}

}  // namespace

std::string figures_line(const ModelInfo& info, const Usage& usage, const Timings& timings) {
  std::string line = pagoda::format("load {:.2f} s", info.load_ms / 1000);
  if (timings.first_token_ms > 0) line += pagoda::format(", first token {:.3f} s", timings.first_token_ms / 1000);
  line += figure("prefill", timings.prefill_tokens, timings.prefill_ms, 0);
  if (usage.cached_tokens > 0) line += pagoda::format(" ({} more from the cache)", usage.cached_tokens);
  return line + figure("decode", timings.decode_tokens, timings.decode_ms, 1);
}

bool AnswerPrinter::show(Channel channel, std::string_view text) {
  if (text.empty()) return true;
  if (channel != channel_) leave(channel);
  std::FILE* const out = channel == Channel::kReasoning ? stderr : stdout;
  std::fwrite(text.data(), 1, text.size(), out);
  line_open_ = text.back() != '\n';
  return std::fflush(out) == 0;
}

void AnswerPrinter::end() { leave(Channel::kContent); }

void AnswerPrinter::leave(Channel next) {
  std::FILE* const out = channel_ == Channel::kReasoning ? stderr : stdout;
  if (line_open_) std::fputc('\n', out);
  std::fflush(out);
  line_open_ = false;
  channel_ = next;
}

}  // namespace pagoda::apps
