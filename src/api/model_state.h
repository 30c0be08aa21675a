#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "api/library_state.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "engine/engine.h"
#include "kv/group_config.h"
#include "pagoda/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pagoda {

/// Requests that were not taken, by reason; counted by any thread.
struct RefusalCounts {
  std::atomic<std::int64_t> invalid{0}, prompt_too_long{0}, queue_full{0}, failed{0};

  void count(ErrorCode code);
};

/// An open model. All of it but the engine is unchanging, so that any thread may tokenize and render.
struct Model::State {
  ~State();

  std::shared_ptr<Library::State> library;
  ModelOptions options;
  ModelInfo info;
  SamplingParams sampling_defaults;  // what the file declares

  std::unique_ptr<const text::Tokenizer> tokenizer;         // null: the model has none
  std::optional<Result<text::ChatTemplate>> chat_template;  // none: the file has none; parsed even if it is wrong

  // What a decode step reads: for benches.
  std::int64_t step_weight_bytes = 0;
  std::int64_t kv_bytes_at(std::int64_t depth) const;
  std::vector<kv::GroupConfig> kv_groups;  // of the open cache

  // Null if the model was opened without weights. The engine's thread is the pool's worker 0; its runner uses both.
  std::unique_ptr<device::Device> device;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<engine::Engine> engine;
  ModelMemory memory;
  RefusalCounts refusals;
};

}  // namespace pagoda
