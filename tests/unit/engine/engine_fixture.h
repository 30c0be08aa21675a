#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "scripted_runner.h"

namespace pagoda::engine {

inline std::unique_ptr<Engine> make_engine(const Script& script, std::int32_t max_queued = 1000) {
  Options options;
  options.limits = {.context = script.context,
                    .max_running = script.max_slots,
                    .max_queued = max_queued,
                    .token_budget = script.max_step_tokens,
                    .prefill_chunk = 24,
                    .decode_burst = 8,
                    .steps_in_flight = script.steps_in_flight};
  options.model_id = "scripted";
  options.verify_cache = true;
  auto engine = Engine::start(options, std::make_unique<ScriptedRunner>(script));
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(engine).value();
}

inline std::vector<std::int32_t> prompt_of(std::int64_t length, std::int32_t first = 11) {
  std::vector<std::int32_t> prompt;
  for (std::int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<std::int32_t>((first + i * i) % 97));
  return prompt;
}

inline Submission ask(std::vector<std::int32_t> prompt, std::int64_t max_new_tokens) {
  Submission submission;
  submission.prompt = std::move(prompt);
  submission.max_new_tokens = max_new_tokens;
  return submission;
}

/// Submits one job; the test fails if it is refused.
inline std::shared_ptr<Job> start(Engine& engine, Submission submission) {
  std::vector<Submission> one;
  one.push_back(std::move(submission));
  auto jobs = engine.submit(std::move(one));
  EXPECT_TRUE(jobs.ok()) << jobs.error().message;
  return jobs.ok() ? jobs->front() : nullptr;
}

/// Waits for something that must come to pass soon.
template <class Condition>
bool eventually(Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

inline bool wait_end(const Job& job) {
  return eventually([&] { return job.ended(); });
}

inline std::vector<std::int32_t> ids_of(const Job& job) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < job.num_ids(); ++i) ids.push_back(job.id(i));
  return ids;
}

/// Blocks that sequences hold, over all groups.
inline std::int64_t used_blocks(const Snapshot& snapshot) {
  std::int64_t used = 0;
  for (const kv::GroupUsage& group : snapshot.cache.groups) used += group.live;
  return used;
}

}  // namespace pagoda::engine
