// What is told of a running model: its counters, its health, its memory.
#include "pagoda/stats.h"

#include <algorithm>

#include "api/model_state.h"
#include "pagoda/model.h"

namespace pagoda {
namespace {

Histogram histogram_of(const engine::Distribution& from) {
  const auto counts = std::span(from.counts).first(from.bounds.size() + 1);
  return {.bounds = from.bounds, .counts = {counts.begin(), counts.end()}, .sum = from.sum};
}

void read_cache(const kv::CacheStats& cache, Stats& out) {
  for (const kv::GroupUsage& group : cache.groups) {
    out.blocks_total += group.total;
    out.blocks_free += group.free;
    out.blocks_used += group.live;
    out.blocks_cached += group.cached;
  }
  out.prefix_lookup_tokens = cache.counters.hit_tokens + cache.counters.miss_tokens;
  out.prefix_hit_tokens = cache.counters.hit_tokens;
  out.prefix_evictions = cache.counters.evictions;
}

void read_histograms(const engine::Snapshot& now, Stats& out) {
  out.queue_s = histogram_of(now.queue_s);
  out.first_token_s = histogram_of(now.first_id_s);
  out.inter_token_s = histogram_of(now.between_ids_s);
  out.request_s = histogram_of(now.request_s);
  out.step_s = histogram_of(now.step_s);
  out.step_rows = histogram_of(now.step_rows);
  out.step_tokens = histogram_of(now.step_tokens);
}

/// "3.2 GiB", "512.0 MiB".
std::string in_units(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? pagoda::format("{:.1f} MiB", mib) : pagoda::format("{:.2f} GiB", mib / 1024);
}

}  // namespace

void RefusalCounts::count(ErrorCode code) {
  switch (code) {
    case ErrorCode::kPromptTooLong:
      prompt_too_long.fetch_add(1, std::memory_order_relaxed);
      break;
    case ErrorCode::kQueueFull:
      queue_full.fetch_add(1, std::memory_order_relaxed);
      break;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kInternal:
    case ErrorCode::kCancelled:  // the model is being closed
      failed.fetch_add(1, std::memory_order_relaxed);
      break;
    default:
      (kind_of(code) == ErrorKind::kDevice ? failed : invalid).fetch_add(1, std::memory_order_relaxed);
  }
}

Stats Model::stats() const {
  Stats out;
  out.refusals = {.invalid = state_->refusals.invalid,
                  .prompt_too_long = state_->refusals.prompt_too_long,
                  .queue_full = state_->refusals.queue_full,
                  .failed = state_->refusals.failed};
  if (state_->engine == nullptr) return out;
  const engine::Snapshot now = state_->engine->snapshot();
  out.queued = now.scheduler.waiting + now.followers;
  out.running = now.scheduler.running;
  out.accepted = now.accepted;
  out.finished = now.finished;
  out.stopped = now.stopped;
  out.cancelled = now.cancelled;
  out.overdue = now.overdue;
  out.failed = now.failed;
  out.non_finite_rows = now.non_finite_rows;
  out.steps = now.scheduler.steps;
  out.prompt_tokens = now.prompt_tokens;
  out.cached_tokens = now.cached_tokens;
  out.generated_tokens = now.ids;
  out.stalled_ms = std::chrono::duration<double, std::milli>(state_->engine->stalled()).count();
  out.preemptions = now.scheduler.preemptions;
  out.block_size = state_->info.block_size;
  read_cache(now.cache, out);
  read_histograms(now, out);
  out.memory = state_->memory;
  return out;
}

Status Model::health() const {
  if (state_->engine == nullptr) {
    return fail(ErrorCode::kUnsupportedArgument, "{} was opened without weights", state_->info.path);
  }
  return state_->engine->health();
}

std::vector<std::string> ledger(const ModelMemory& memory) {
  std::vector<std::string> lines;
  const auto line = [&](const char* name, std::int64_t bytes, const std::string& rest) {
    lines.push_back(pagoda::format("{:<10} {:>11}{}{}", name, in_units(bytes), rest.empty() ? "" : "  ", rest));
  };
  line("weights", memory.weight_bytes, "");
  const double contexts =
      static_cast<double>(memory.cache_tokens) / static_cast<double>(std::max<std::int64_t>(1, memory.context));
  line("KV cache", memory.cache_bytes,
       pagoda::format("{} tokens: {:.1f} contexts of {} ({})", memory.cache_tokens, contexts, memory.context,
                      memory.cache_reason));
  line("workspace", memory.workspace_bytes, "");
  line("graphs", memory.graph_bytes, "");
  line("free", memory.free_bytes, pagoda::format("of {} on {}", in_units(memory.device_bytes), memory.device));
  return lines;
}

}  // namespace pagoda
