#include "scripted_runner.h"

#include <bit>

#include "base/check.h"
#include "sched/check_batch.h"

namespace pagoda::engine {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 33);
}

std::uint64_t key_of(const SamplingParams& sampling, std::uint64_t seed, std::int32_t choice) {
  std::uint64_t key = mix(seed, static_cast<std::uint64_t>(choice));
  key = mix(key, std::bit_cast<std::uint32_t>(sampling.temperature.value_or(0)));
  return mix(key, std::bit_cast<std::uint32_t>(sampling.repetition_penalty.value_or(1)));
}

std::int32_t draw(const Script& script, std::uint64_t hash, std::uint64_t key) {
  const auto range = static_cast<std::uint64_t>(script.vocab - script.lowest_id);
  return script.lowest_id + static_cast<std::int32_t>(mix(hash, key) % range);
}

}  // namespace

ScriptedRunner::ScriptedRunner(Script script) : script_(std::move(script)) {
  info_.groups.push_back({.name = "full",
                          .block_size = script_.block_size,
                          .block_count = script_.blocks,
                          .bytes_per_block = 1,
                          .num_layers = 1});
  if (script_.window > 0) {
    info_.groups.push_back({.name = "window",
                            .block_size = script_.block_size,
                            .block_count = script_.blocks,
                            .bytes_per_block = 1,
                            .window = script_.window,
                            .num_layers = 1});
  }
  info_.vocab = script_.vocab;
  info_.context = script_.context;
  info_.max_slots = script_.max_slots;
  info_.max_step_tokens = script_.max_step_tokens;
  info_.steps_in_flight = script_.steps_in_flight;
  slots_.resize(static_cast<std::size_t>(script_.max_slots));
  pages_.resize(info_.groups.size());
  for (auto& page : pages_) page.assign(static_cast<std::size_t>(script_.blocks * script_.block_size), -7);
}

Status ScriptedRunner::set_slot(std::int32_t slot, const runtime::SlotSetup& setup) {
  Slot& mine = slots_[static_cast<std::size_t>(slot)];
  PAGODA_CHECK(!mine.set, "slot {} is set twice", slot);
  if (setup.sampling->temperature.value_or(0) < 0) {
    return fail_param(ErrorCode::kInvalidArgument, "temperature", "the temperature is negative");
  }
  mine.set = true;
  mine.sampling = *setup.sampling;
  mine.key = key_of(*setup.sampling, setup.seed, setup.choice);
  mine.first_token = setup.tokens.front();
  mine.prompt_best = setup.prompt_best;
  mine.last_id = setup.tokens.back();
  return Ok{};
}

void ScriptedRunner::clear_slot(std::int32_t slot) {
  PAGODA_CHECK(slots_[static_cast<std::size_t>(slot)].set, "slot {} is not set", slot);
  slots_[static_cast<std::size_t>(slot)].set = false;
}

Status ScriptedRunner::submit(const sched::Batch& batch) {
  PAGODA_CHECK(std::ssize(in_flight_) < script_.steps_in_flight, "{} steps in flight", in_flight_.size());
  const Status sound = sched::check(batch, info_.groups,
                                    {.max_rows = script_.max_slots,
                                     .max_tokens = script_.max_step_tokens,
                                     .max_blocks = script_.context / script_.block_size + 1});
  PAGODA_CHECK(sound.ok(), "{}", sound.error().message);
  if (script_.before_step) PAGODA_TRY(script_.before_step(batch.step));
  Computed out;
  out.step = batch.step;
  out.rows.resize(batch.rows.size());
  out.floats.resize(batch.rows.size());
  out.best.resize(2 * batch.rows.size());
  for (std::size_t r = 0; r < batch.rows.size(); ++r) compute(batch, r, out);
  in_flight_.push_back(std::move(out));
  return Ok{};
}

void ScriptedRunner::compute(const sched::Batch& batch, std::size_t r, Computed& out) {
  const sched::Row& row = batch.rows[r];
  Slot& slot = slots_[static_cast<std::size_t>(row.slot)];
  PAGODA_CHECK(slot.set, "row {} names slot {}, which is not set", r, row.slot);
  const auto tokens = batch.row_tokens(row);
  for (std::size_t g = 0; g < info_.groups.size(); ++g) {
    const auto writes = batch.write_slots(row, g);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool on_device = i == 0 && row.first_id_on_device;
      pages_[g][static_cast<std::size_t>(writes[i])] = on_device ? slot.last_id : tokens[i];
    }
  }
  std::uint64_t hash = 1;
  for (std::size_t g = 0; g < info_.groups.size(); ++g) {
    const kv::GroupConfig& group = info_.groups[g];
    const auto table = batch.block_table(r, g);
    const std::int64_t first = group.windowed() ? std::max<std::int64_t>(0, row.end() - group.window) : 0;
    for (std::int64_t t = first; t < row.end(); ++t) {
      const auto block = table[static_cast<std::size_t>(t / group.block_size)];
      const auto place = static_cast<std::size_t>(kv::slot_index(block, group.block_size, t));
      hash = mix(hash, static_cast<std::uint64_t>(pages_[g][place]));
    }
  }
  runtime::RowResult& result = out.rows[r];
  result.slot = row.slot;
  if (row.wants_id) {
    if (slot.first_token == script_.nan_from && (script_.nan_step == 0 || script_.nan_step == batch.step)) {
      result.non_finite = true;
    } else {
      result.id = draw(script_, hash, slot.key);
      slot.last_id = result.id;
      result.logprob = logprob_of(result.id);
      for (std::int32_t k = 0; k < slot.sampling.logprobs.value_or(0); ++k) {
        out.best[2 * r].push_back({.id = result.id + k, .logprob = logprob_of(result.id + k)});
      }
      result.best = out.best[2 * r];
    }
  }
  if (row.want == sched::Want::kPromptLogprobs) {
    for (std::int32_t i = row.want_from; i < row.want_to; ++i) {
      const std::int32_t target = batch.targets[static_cast<std::size_t>(row.token_offset + i)];
      out.floats[r].push_back(target == sched::kNoToken ? 0 : logprob_of(target));
      for (std::int32_t k = 0; k < slot.prompt_best; ++k) {
        out.best[2 * r + 1].push_back({.id = target + k, .logprob = -1});
      }
    }
    result.target_logprobs = out.floats[r];
    result.target_best = out.best[2 * r + 1];
  }
  if (row.want == sched::Want::kLogits) {
    for (std::int32_t i = row.want_from; i < row.want_to; ++i) {
      for (std::int64_t v = 0; v < script_.vocab; ++v) {
        out.floats[r].push_back(static_cast<float>((row.start + i) * 1000 + v));
      }
    }
    result.logits = out.floats[r];
  }
}

Result<runtime::StepResult> ScriptedRunner::fetch() {
  PAGODA_CHECK(!in_flight_.empty(), "no step in flight");
  fetched_ = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  return runtime::StepResult{.step = fetched_.step, .rows = fetched_.rows};
}

std::vector<std::int32_t> ScriptedRunner::expected(const Script& script, std::vector<std::int32_t> prompt,
                                                   const SamplingParams& sampling, std::uint64_t seed,
                                                   std::int32_t choice, std::int64_t count) {
  std::vector<std::int32_t> out;
  const std::uint64_t key = key_of(sampling, seed, choice);
  while (std::ssize(out) < count) {
    std::uint64_t hash = 1;
    for (const std::int32_t token : prompt) hash = mix(hash, static_cast<std::uint64_t>(token));
    if (script.window > 0) {
      const std::int64_t first = std::max<std::int64_t>(0, std::ssize(prompt) - script.window);
      for (std::int64_t t = first; t < std::ssize(prompt); ++t) {
        hash = mix(hash, static_cast<std::uint64_t>(prompt[static_cast<std::size_t>(t)]));
      }
    }
    out.push_back(draw(script, hash, key));
    prompt.push_back(out.back());
  }
  return out;
}

}  // namespace pagoda::engine
