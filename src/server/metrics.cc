#include "server/metrics.h"

#include <algorithm>

#include "base/format.h"

namespace pagoda::server {
namespace {

constexpr double kTokens[] = {1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

Histogram of_tokens() { return {.bounds = kTokens, .counts = std::vector<std::int64_t>(std::size(kTokens) + 1)}; }

void observe(Histogram& histogram, double value) {
  const auto at = std::ranges::lower_bound(histogram.bounds, value) - histogram.bounds.begin();
  ++histogram.counts[static_cast<std::size_t>(at)];
  histogram.sum += value;
}

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

}  // namespace

class Metrics::Writer {
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
    describe("histogram", name, help);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
      total += histogram.counts[i];
      const std::string bound = i < histogram.bounds.size() ? format("{}", histogram.bounds[i]) : "+Inf";
      sample(format("{}_bucket", name), format("le=\"{}\"", bound), total);
    }
    out_ += format("pagoda_{0}_sum{{{1}}} {2}\npagoda_{0}_count{{{1}}} {3}\n", name, model_, histogram.sum, total);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string model_;
  std::string out_;
};

Metrics::Metrics() : prompt_tokens_(of_tokens()), answer_tokens_(of_tokens()) {
  // So that a rate is there before the first event.
  for (const char* reason : {"stop", "length", "error"}) finished_[reason] = 0;
  for (const char* reason : {"queue_full", "overloaded", "loading", "shutting_down", "unauthorized", "invalid"})
    refused_[reason] = 0;
}

void Metrics::prompt(std::int64_t tokens) { observe(prompt_tokens_, static_cast<double>(tokens)); }

void Metrics::choice(std::string_view finish, std::int64_t tokens) {
  ++finished_[std::string(finish)];
  observe(answer_tokens_, static_cast<double>(tokens));
}

/// What does not come from the engine.
void Metrics::write_server(Writer& out, const Now& now) const {
  out.add("gauge", "http_connections", "Open connections.", now.connections);
  out.add("counter", "log_lines_lost_total", "Lines of the log that nobody took.", now.lost_log_lines);
  out.describe("counter", "requests_refused_total", "Requests refused, by reason.");
  for (const auto& [reason, count] : refused_) {
    out.sample("requests_refused_total", format("reason=\"{}\"", reason), count);
  }
  out.describe("counter", "http_responses_total", "Responses, by route and status.");
  for (const auto& [key, count] : responses_) {
    out.sample("http_responses_total", format("route=\"{}\",status=\"{}\"", key.first, key.second), count);
  }
  out.describe("counter", "http_requests_unanswered_total", "Requests whose client left before a response, by route.");
  for (const auto& [route, count] : unanswered_) {
    out.sample("http_requests_unanswered_total", format("route=\"{}\"", route), count);
  }
}

std::string Metrics::write_loading(std::uint64_t bytes, std::uint64_t total_bytes, const Now& now) const {
  Writer out("");
  out.add("gauge", "model_loaded", "1 once the model is there.", 0);
  out.add("gauge", "load_bytes_read", "Bytes of weights that are read.", bytes);
  out.add("gauge", "load_bytes", "Bytes of weights to be read.", total_bytes);
  write_server(out, now);
  return out.take();
}

std::string Metrics::write(std::string_view model, const Stats& stats, const Now& now) const {
  Writer out(model);
  out.add("gauge", "num_requests_running", "Choices that run now.", stats.running);
  out.add("gauge", "num_requests_waiting", "Choices that wait to run.", stats.queued);
  const double usable = static_cast<double>(std::max<std::int64_t>(1, stats.blocks_total));
  out.add("gauge", "kv_cache_usage_perc", "Share of the KV cache that running requests hold; 1 is all.",
          static_cast<double>(stats.blocks_used) / usable);
  out.add("gauge", "kv_blocks", "Blocks of the KV cache.", stats.blocks_total);
  out.add("gauge", "kv_blocks_used", "Blocks that running requests hold.", stats.blocks_used);
  out.add("gauge", "kv_blocks_cached", "Blocks kept for reuse alone.", stats.blocks_cached);
  out.add("gauge", "kv_blocks_free", "Blocks that hold nothing.", stats.blocks_free);
  out.add("counter", "prompt_tokens_total", "Prompt tokens of accepted requests.", stats.prompt_tokens);
  out.add("counter", "prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.", stats.cached_tokens);
  out.add("counter", "generation_tokens_total", "Tokens sampled.", stats.generated_tokens);
  out.add("counter", "num_preemptions_total", "Requests put back for want of KV blocks.", stats.preemptions);
  out.add("counter", "prefix_cache_evictions_total", "Cached blocks given up.", stats.prefix_evictions);
  out.add("counter", "non_finite_rows_total", "Rows whose logits were no numbers.", stats.non_finite_rows);
  out.add("counter", "requests_overdue_total", "Choices that ran past their deadline.", stats.overdue);
  out.add("counter", "prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
          stats.prefix_lookup_tokens);
  out.add("counter", "prefix_cache_hits_total", "Of these, found.", stats.prefix_hit_tokens);
  out.add("gauge", "weights_bytes", "Memory of the weights.", stats.memory.weight_bytes);
  out.add("gauge", "kv_cache_bytes", "Memory of the KV cache.", stats.memory.cache_bytes);
  out.add("counter", "requests_aborted_total", "Requests whose client left before the end.", aborted_);
  out.describe("counter", "request_success_total", "Choices that ended, by reason.");
  for (const auto& [reason, count] : finished_) {
    out.sample("request_success_total", format("finished_reason=\"{}\"", reason), count);
  }
  out.add("gauge", "model_loaded", "1 once the model is there.", 1);
  write_server(out, now);
  out.add(stats.first_token_s, "time_to_first_token_seconds", "From submission to a choice's first token.");
  out.add(stats.inter_token_s, "inter_token_latency_seconds", "Between two tokens of a choice.");
  out.add(stats.request_s, "e2e_request_latency_seconds", "From submission to the end of a choice.");
  out.add(stats.queue_s, "request_queue_time_seconds", "From submission to the first step that worked on a choice.");
  out.add(stats.step_s, "step_duration_seconds", "Of one step of the engine.");
  out.add(stats.step_rows, "step_batch_size", "Sequences of a step.");
  out.add(stats.step_tokens, "step_tokens", "Tokens of a step, of prompts and answers.");
  out.add(prompt_tokens_, "request_prompt_tokens", "Prompt tokens of a request.");
  out.add(answer_tokens_, "request_generation_tokens", "Tokens of a choice.");
  return out.take();
}

}  // namespace pagoda::server
