#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace pagoda::runtime {
namespace {

template <class T>
Status check(bool right, std::string_view name, T found, std::string_view allowed) {
  if (right) return Ok{};
  return fail_param(ErrorCode::kInvalidArgument, std::string(name), "{} is {}; it must be {}", name, found, allowed);
}

Status check_ids(std::string_view name, std::span<const std::int32_t> ids, std::int64_t vocab) {
  for (const std::int32_t id : ids) {
    PAGODA_TRY(check(id >= 0 && id < vocab, name, id, pagoda::format("an id from 0 to {}", vocab - 1)));
  }
  return Ok{};
}

Status check_bias(const SamplingParams& params, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (const auto& [id, bias] : params.logit_bias) {
    PAGODA_TRY(check(std::isfinite(bias), "logit_bias", bias, "a finite number"));
    ids.push_back(id);
  }
  PAGODA_TRY(check_ids("logit_bias", ids, vocab));
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return Ok{};
  return fail_param(ErrorCode::kInvalidArgument, "logit_bias", "logit_bias names the id {} twice", *twice);
}

}  // namespace

Status check_sampling(const SamplingParams& params, std::int64_t vocab) {
  const float temperature = params.temperature.value_or(0);
  PAGODA_TRY(check(std::isfinite(temperature) && temperature >= 0, "temperature", temperature, "a number from 0 on"));
  PAGODA_TRY(check(params.top_k.value_or(0) >= 0, "top_k", params.top_k.value_or(0), "a whole number from 0 on"));
  const float top_p = params.top_p.value_or(1);
  PAGODA_TRY(check(top_p > 0 && top_p <= 1, "top_p", top_p, "above 0 and at most 1"));
  const float min_p = params.min_p.value_or(0);
  PAGODA_TRY(check(min_p >= 0 && min_p <= 1, "min_p", min_p, "from 0 to 1"));
  const float repetition = params.repetition_penalty.value_or(1);
  PAGODA_TRY(check(std::isfinite(repetition) && repetition > 0, "repetition_penalty", repetition, "above 0"));
  const float presence = params.presence_penalty;
  PAGODA_TRY(check(presence >= -2 && presence <= 2, "presence_penalty", presence, "from -2 to 2"));
  const float frequency = params.frequency_penalty;
  PAGODA_TRY(check(frequency >= -2 && frequency <= 2, "frequency_penalty", frequency, "from -2 to 2"));
  PAGODA_TRY(check(params.min_tokens >= 0, "min_tokens", params.min_tokens, "a whole number from 0 on"));
  PAGODA_TRY(check(params.max_tokens.value_or(0) >= 0, "max_tokens", params.max_tokens.value_or(0),
                   "a whole number from 0 on"));
  const std::int32_t best = params.logprobs.value_or(0);
  PAGODA_TRY(check(best >= 0 && best <= vocab, "logprobs", best, pagoda::format("from 0 to {}", vocab)));
  PAGODA_TRY(check_ids("stop_ids", params.stop_ids, vocab));
  return check_bias(params, vocab);
}

Result<SlotSampling> resolve_sampling(const SlotSetup& setup, std::int64_t vocab,
                                      std::span<const std::int32_t> never_drawn) {
  const SamplingParams defaults;
  const SamplingParams& params = setup.sampling != nullptr ? *setup.sampling : defaults;
  PAGODA_TRY(check_sampling(params, vocab));
  PAGODA_TRY(check_ids("prompt", setup.tokens, vocab));
  PAGODA_TRY(check_ids("end_ids", setup.end_ids, vocab));
  PAGODA_TRY(check(setup.prompt_best >= 0 && setup.prompt_best <= vocab, "prompt_logprobs", setup.prompt_best,
                   pagoda::format("from 0 to {}", vocab)));
  SlotSampling own;
  own.settings = {.temperature = static_cast<double>(params.temperature.value_or(0)),
                  .top_k = params.top_k.value_or(0),
                  .top_p = static_cast<double>(params.top_p.value_or(1)),
                  .min_p = static_cast<double>(params.min_p.value_or(0)),
                  .repetition_penalty = static_cast<double>(params.repetition_penalty.value_or(1)),
                  .presence_penalty = static_cast<double>(params.presence_penalty),
                  .frequency_penalty = static_cast<double>(params.frequency_penalty),
                  .seed = setup.seed,
                  .choice = static_cast<std::uint32_t>(setup.choice)};
  own.bias = params.logit_bias;
  for (const auto& [id, bias] : own.bias) {
    PAGODA_TRY(check(!std::ranges::binary_search(never_drawn, id), "logit_bias", id, "the id of a token"));
  }
  own.bias.reserve(own.bias.size() + never_drawn.size());
  for (const std::int32_t id : never_drawn) own.bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  own.end_ids.assign(setup.end_ids.begin(), setup.end_ids.end());
  own.first_end = params.min_tokens > 0 ? setup.prompt_tokens + params.min_tokens : 0;
  own.num_best = params.logprobs.value_or(-1);
  own.num_prompt_best = setup.prompt_best;
  return own;
}

Sampler::Sampler(std::int64_t vocab, std::int64_t context, std::int32_t slots, std::vector<std::int32_t> never_drawn)
    : vocab_(vocab), context_(context), never_drawn_(std::move(never_drawn)), slots_(static_cast<std::size_t>(slots)) {}

Status Sampler::set_slot(std::int32_t slot, const SlotSetup& setup) {
  Slot& own = at(slot);
  own.sampling = PAGODA_TRY(resolve_sampling(setup, vocab_, never_drawn_));
  own.seen.clear();
  own.seen_at.clear();
  if (own.sampling.settings.penalises()) {
    own.seen_at.assign(static_cast<std::size_t>(vocab_), -1);
    own.seen.reserve(static_cast<std::size_t>(std::min(vocab_, context_ + 1)));  // a step allocates nothing
    for (std::int64_t i = 0; i < std::ssize(setup.tokens); ++i) {
      count(own, setup.tokens[static_cast<std::size_t>(i)], i >= setup.prompt_tokens);
    }
  }
  return Ok{};
}

void Sampler::clear_slot(std::int32_t slot) { at(slot) = Slot{}; }

void Sampler::count(Slot& slot, std::int32_t id, bool output) {
  if (slot.seen_at.empty()) return;
  std::int32_t& place = slot.seen_at[static_cast<std::size_t>(id)];
  if (place < 0) {
    place = static_cast<std::int32_t>(slot.seen.size());
    slot.seen.push_back({.id = id, .in_output = 0});
  }
  if (output) ++slot.seen[static_cast<std::size_t>(place)].in_output;
}

template <class T>
void Sampler::sample(std::int32_t slot, std::int64_t position, std::span<const T> logits, RowScratch<T>& scratch,
                     std::span<TokenLogprob> best, RowResult& result) {
  Slot& own = at(slot);
  const SlotSampling& sampling = own.sampling;
  kernels::RowSummary summary = kernels::summarize(logits, scratch.draw.isa);
  result.non_finite = !summary.finite;
  if (!summary.finite) return;
  const double log_sum = sampling.num_best >= 0 ? kernels::log_sum_exp(logits, summary.max, scratch.draw.isa) : 0;
  if (sampling.num_best > 0) kernels::best_tokens(logits, log_sum, best, scratch.draw);
  const kernels::LogitChanges changes{.bias = sampling.bias,
                                      .seen = own.seen,
                                      .masked = position < sampling.first_end
                                                    ? std::span<const std::int32_t>(sampling.end_ids)
                                                    : std::span<const std::int32_t>()};
  std::span<const T> row = logits;
  if (!changes.bias.empty() || !changes.seen.empty() || !changes.masked.empty()) {
    const std::span<T> changed(scratch.row.data(), logits.size());
    std::ranges::copy(logits, changed.begin());
    kernels::change_logits(changed, sampling.settings, changes);
    summary = kernels::summarize(std::span<const T>(changed), scratch.draw.isa);
    result.non_finite = !summary.finite;
    if (!summary.finite) return;
    row = changed;
  }
  result.id = kernels::draw(row, summary, sampling.settings, position, scratch.draw);
  if (sampling.num_best >= 0) {
    result.logprob = static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(result.id)]) - log_sum);
    result.best = best;
  }
  count(own, result.id, true);
}

template void Sampler::sample(std::int32_t, std::int64_t, std::span<const float>, RowScratch<float>&,
                              std::span<TokenLogprob>, RowResult&);
template void Sampler::sample(std::int32_t, std::int64_t, std::span<const double>, RowScratch<double>&,
                              std::span<TokenLogprob>, RowResult&);

}  // namespace pagoda::runtime
