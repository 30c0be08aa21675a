#include "server/metrics.h"

#include <algorithm>

#include "base/format.h"

namespace pagoda::server {
namespace {

constexpr double kFirstToken[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
constexpr double kInterToken[] = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05,
                                  0.075, 0.1,    0.15,  0.2,    0.3,  0.4,   0.5,  1,    2.5};
constexpr double kEndToEnd[] = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600};
constexpr double kTokens[] = {1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

/// A label's value between quotes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

class Writer {
 public:
  explicit Writer(std::string_view model) : model_(format("model_name=\"{}\"", escaped(model))) {}

  template <class T>
  void add(std::string_view kind, std::string_view name, std::string_view help, T value) {
    describe(kind, name, help);
    out_ += format("pagoda_{}{{{}}} {}\n", name, model_, value);
  }
  void describe(std::string_view kind, std::string_view name, std::string_view help) {
    out_ += format("# HELP pagoda_{} {}\n# TYPE pagoda_{} {}\n", name, help, name, kind);
  }
  void sample(std::string_view name, std::string_view labels, std::int64_t value) {
    out_ += format("pagoda_{}{{{},{}}} {}\n", name, model_, labels, value);
  }
  void add(const Histogram& histogram, std::string_view name, std::string_view help) {
    histogram.write(name, help, model_, out_);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string model_;
  std::string out_;
};

}  // namespace

void Histogram::observe(double value, std::int64_t times) {
  const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)] += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::write(std::string_view name, std::string_view help, std::string_view labels, std::string& out) const {
  out += format("# HELP pagoda_{} {}\n# TYPE pagoda_{} histogram\n", name, help, name);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? format("{}", bounds_[i]) : "+Inf";
    out += format("pagoda_{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, total);
  }
  out += format("pagoda_{}_sum{{{}}} {}\npagoda_{}_count{{{}}} {}\n", name, labels, sum_, name, labels, total);
}

Metrics::Metrics()
    : first_token_(kFirstToken),
      inter_token_(kInterToken),
      end_to_end_(kEndToEnd),
      queue_(kFirstToken),
      prompt_tokens_(kTokens),
      answer_tokens_(kTokens) {
  // So that a rate is there before the first event.
  for (const char* reason : {"stop", "length", "error"}) finished_[reason] = 0;
  for (const char* reason : {"queue_full", "overloaded", "draining", "unauthorized", "invalid"}) refused_[reason] = 0;
}

void Metrics::choice(std::string_view finish, double seconds, std::int64_t tokens) {
  ++finished_[std::string(finish)];
  end_to_end_.observe(seconds);
  answer_tokens_.observe(static_cast<double>(tokens));
}

std::string Metrics::write(std::string_view model, const Stats& stats, std::int64_t connections) const {
  Writer out(model);
  out.add("gauge", "num_requests_running", "Choices that run now.", stats.running);
  out.add("gauge", "num_requests_waiting", "Choices that wait to run.", stats.queued);
  const double usable = static_cast<double>(std::max<std::int64_t>(1, stats.blocks_total));
  out.add("gauge", "kv_cache_usage_perc", "Share of the KV cache that running requests hold; 1 is all.",
          static_cast<double>(stats.blocks_used) / usable);
  out.add("gauge", "kv_blocks_total", "Blocks of the KV cache.", stats.blocks_total);
  out.add("gauge", "kv_blocks_used", "Blocks that running requests hold.", stats.blocks_used);
  out.add("gauge", "kv_blocks_cached", "Blocks kept for reuse alone.", stats.blocks_cached);
  out.add("gauge", "kv_blocks_free", "Blocks that hold nothing.", stats.blocks_free);
  out.add("gauge", "http_connections", "Open connections.", connections);
  out.add("counter", "prompt_tokens_total", "Prompt tokens of accepted requests.", stats.prompt_tokens);
  out.add("counter", "prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.", stats.cached_tokens);
  out.add("counter", "generation_tokens_total", "Tokens sampled.", stats.generated_tokens);
  out.add("counter", "num_preemptions_total", "Requests put back for want of KV blocks.", stats.preemptions);
  out.add("counter", "prefix_cache_evictions_total", "Cached blocks given up.", stats.prefix_evictions);
  out.add("counter", "steps_total", "Steps of the engine.", stats.steps);
  out.add("counter", "step_seconds_total", "Time spent in steps.", stats.busy_ms / 1000);
  out.add("counter", "non_finite_rows_total", "Rows whose logits were no numbers.", stats.non_finite_rows);
  out.add("counter", "requests_aborted_total", "Requests whose client left before the end.", aborted_);
  out.describe("counter", "request_success_total", "Choices that ended, by reason.");
  for (const auto& [reason, count] : finished_) {
    out.sample("request_success_total", format("finished_reason=\"{}\"", reason), count);
  }
  out.describe("counter", "requests_refused_total", "Requests refused, by reason.");
  for (const auto& [reason, count] : refused_) {
    out.sample("requests_refused_total", format("reason=\"{}\"", reason), count);
  }
  out.describe("counter", "http_responses_total", "Responses, by route and status.");
  for (const auto& [key, count] : responses_) {
    out.sample("http_responses_total", format("route=\"{}\",status=\"{}\"", key.first, key.second), count);
  }
  out.add(first_token_, "time_to_first_token_seconds", "From a request's arrival to its first token.");
  out.add(inter_token_, "inter_token_latency_seconds", "Between two tokens of a choice.");
  out.add(end_to_end_, "e2e_request_latency_seconds", "From a request's arrival to the end of a choice.");
  out.add(queue_, "request_queue_time_seconds", "From a request's arrival to its first step.");
  out.add(prompt_tokens_, "request_prompt_tokens", "Prompt tokens of a request.");
  out.add(answer_tokens_, "request_generation_tokens", "Tokens of a choice.");
  return out.take();
}

}  // namespace pagoda::server
