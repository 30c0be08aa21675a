#include "runtime/device_sampler.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/sample/weight_units.h"

namespace pagoda::runtime {
namespace {

using device::cuda::CudaStream;
using device::cuda::DeviceAddress;
using kernels::CudaSampleBias;
using kernels::CudaSampleSlot;

static_assert(sizeof(kernels::CudaSampleBest) == sizeof(TokenLogprob));

constexpr std::int64_t kAlign = 256;

// Offsets of the parts in a staging buffer.
constexpr std::int64_t kStagedBias = kAlign;
std::int64_t staged_words(const SampleLayout& layout) {
  return kStagedBias + round_up(layout.max_bias() * static_cast<std::int64_t>(sizeof(CudaSampleBias)), kAlign);
}

bool needs_words(const SlotSampling& sampling) {
  return sampling.settings.penalises() || !sampling.bias.empty() ||
         (sampling.first_end > 0 && !sampling.end_ids.empty());
}

CudaSampleSlot device_slot(const SlotSampling& sampling, std::int64_t vocab) {
  const kernels::SampleSettings& settings = sampling.settings;
  const bool top_k = settings.top_k < vocab;
  std::uint32_t flags = settings.greedy() ? kernels::kSampleGreedy : 0;
  if (settings.penalises()) flags |= kernels::kSamplePenalises;
  if (needs_words(sampling)) flags |= kernels::kSampleWords;
  return {.inverse = settings.greedy() ? 1.0 : 1.0 / settings.temperature,
          .top_p = settings.top_p,
          .min_p = settings.min_p,
          .repetition_penalty = settings.repetition_penalty,
          .presence_penalty = settings.presence_penalty,
          .frequency_penalty = settings.frequency_penalty,
          .seed = settings.seed,
          .first_end = sampling.first_end,
          .choice = settings.choice,
          .top_k = top_k ? settings.top_k : 0,
          .num_bias = static_cast<std::int32_t>(sampling.bias.size()),
          .flags = flags};
}

void write_words(const SlotSampling& sampling, const SlotSetup& setup, std::span<std::uint32_t> words) {
  std::ranges::fill(words, 0u);
  const auto word = [&](std::int32_t id) -> std::uint32_t& { return words[static_cast<std::size_t>(id)]; };
  if (sampling.settings.penalises()) {
    for (std::int64_t i = 0; i < std::ssize(setup.tokens); ++i) {
      std::uint32_t& seen = word(setup.tokens[static_cast<std::size_t>(i)]);
      seen = (seen | kernels::kSampleSeen) + (i >= setup.prompt_tokens ? 1 : 0);
    }
  }
  for (const auto& [id, bias] : sampling.bias) word(id) |= kernels::kSampleBiased;
  if (sampling.first_end > 0) {
    for (const std::int32_t id : sampling.end_ids) word(id) |= kernels::kSampleEnds;
  }
}

Status check_most(std::string_view name, std::int64_t found, std::int64_t most) {
  if (found <= most) return Ok{};
  return fail_param(ErrorCode::kUnsupportedArgument, std::string(name),
                    "{} asks for {}; on a GPU at most {} are served", name, found, most);
}

}  // namespace

Result<SampleLayout> SampleLayout::of(const DeviceSamplerSize& size) {
  constexpr std::int64_t kMostTokens = std::int64_t{kernels::kSampleMaxPieces} * kernels::kSamplePiece;
  if (size.vocab < 1 || size.vocab > kMostTokens) {
    return fail(ErrorCode::kUnsupportedArgument, "a vocabulary of {} tokens; sampling on a GPU takes 1 to {}",
                size.vocab, kMostTokens);
  }
  PAGODA_CHECK(size.slots > 0 && size.rows > 0, "{} slots and {} rows", size.slots, size.rows);
  SampleLayout layout{.size = size, .pieces = ceil_div<std::int64_t>(size.vocab, kernels::kSamplePiece)};
  const auto take = [&](std::int64_t count, std::size_t each) {
    const std::int64_t offset = layout.bytes;
    layout.bytes += round_up(count * static_cast<std::int64_t>(each), kAlign);
    return offset;
  };
  layout.slots = take(size.slots, sizeof(CudaSampleSlot));
  layout.bias = take(size.slots * layout.max_bias(), sizeof(CudaSampleBias));
  layout.words = take(size.slots * size.vocab, sizeof(std::uint32_t));
  layout.last_ids = take(size.slots, sizeof(std::int32_t));
  layout.rows = take(size.rows, sizeof(kernels::CudaSampleRow));
  layout.results = take(size.rows, sizeof(kernels::CudaSampleResult));
  layout.best = take(size.rows * kernels::kSampleMaxBest, sizeof(kernels::CudaSampleBest));
  layout.states = take(size.rows, sizeof(kernels::CudaSampleState));
  layout.partials = take(size.rows * layout.pieces * 2, sizeof(std::uint64_t));
  layout.masses = take(size.rows * layout.pieces * kernels::kSampleWarps, sizeof(std::uint64_t));
  layout.sums = take(size.rows * layout.pieces * kernels::kSampleWarps, sizeof(double));
  layout.bins = take(size.rows * 2 * kernels::kSampleBins, sizeof(std::uint32_t));
  layout.lists = take(size.rows * 2 * kernels::kSampleList, sizeof(std::uint64_t));
  return layout;
}

std::int64_t slot_staging_bytes(const SampleLayout& layout) {
  return staged_words(layout) + layout.size.vocab * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

Result<std::vector<SlotCopy>> write_slot(const SampleLayout& layout, std::int32_t slot, const SlotSetup& setup,
                                         std::span<std::byte> staging) {
  PAGODA_CHECK(slot >= 0 && slot < layout.size.slots && std::ssize(staging) >= slot_staging_bytes(layout),
               "slot {} of {}, staging of {} bytes", slot, layout.size.slots, staging.size());
  const SlotSampling sampling = PAGODA_TRY(resolve_sampling(setup, layout.size.vocab, layout.size.never_drawn));
  PAGODA_TRY(check_most("logit_bias", std::ssize(sampling.bias) - std::ssize(layout.size.never_drawn), kMaxBias));
  PAGODA_TRY(check_most("logprobs", sampling.num_best, kernels::kSampleMaxBest));
  PAGODA_TRY(check_most("prompt_logprobs", sampling.num_prompt_best, kernels::kSampleMaxBest));
  const CudaSampleSlot state = device_slot(sampling, layout.size.vocab);
  std::memcpy(staging.data(), &state, sizeof state);
  std::vector<SlotCopy> copies = {
      {.from = 0, .to = layout.slots + slot * std::int64_t{sizeof state}, .bytes = sizeof state}};
  if (!sampling.bias.empty()) {
    std::vector<std::pair<std::int32_t, float>> sorted = sampling.bias;
    std::ranges::sort(sorted);
    auto* bias = reinterpret_cast<CudaSampleBias*>(staging.data() + kStagedBias);
    for (std::size_t i = 0; i < sorted.size(); ++i) bias[i] = {.id = sorted[i].first, .value = sorted[i].second};
    copies.push_back({.from = kStagedBias,
                      .to = layout.bias + slot * layout.max_bias() * std::int64_t{sizeof(CudaSampleBias)},
                      .bytes = std::ssize(sorted) * std::int64_t{sizeof(CudaSampleBias)}});
  }
  if (needs_words(sampling)) {
    const std::int64_t bytes = layout.size.vocab * std::int64_t{sizeof(std::uint32_t)};
    auto* words = reinterpret_cast<std::uint32_t*>(staging.data() + staged_words(layout));
    write_words(sampling, setup, {words, static_cast<std::size_t>(layout.size.vocab)});
    copies.push_back({.from = staged_words(layout), .to = layout.words + slot * bytes, .bytes = bytes});
  }
  return copies;
}

Result<DeviceSampler> DeviceSampler::create(const SampleLayout& layout, SampleKernels kernels, std::byte* memory,
                                            CudaStream& stream) {
  const device::cuda::Context& context = stream.context();
  auto staging = PAGODA_TRY(device::cuda::PinnedBytes::create(stream.context_ptr(), slot_staging_bytes(layout)));
  context.driver().check(context.api().set_bytes_async(reinterpret_cast<DeviceAddress>(memory), 0,
                                                       static_cast<std::size_t>(layout.bytes), stream.handle()),
                         "clearing the sampler's memory");
  return DeviceSampler(layout, std::move(kernels), memory, std::move(staging), context.caps().num_sms,
                       context.caps().compute_major >= 9);
}

Status DeviceSampler::set_slot(std::int32_t slot, const SlotSetup& setup, CudaStream& stream) {
  std::byte* host = staging_.host();
  const std::vector<SlotCopy> copies =
      PAGODA_TRY(write_slot(layout_, slot, setup, {host, static_cast<std::size_t>(staging_.bytes())}));
  for (const SlotCopy& copy : copies) staging_.upload(copy.from, copy.bytes, memory_ + copy.to, stream);
  const SlotSampling sampling = PAGODA_TRY(resolve_sampling(setup, layout_.size.vocab, layout_.size.never_drawn));
  known_[static_cast<std::size_t>(slot)] = {.num_best = sampling.num_best,
                                            .num_prompt_best = sampling.num_prompt_best,
                                            .plain = sampling.settings.greedy() && sampling.num_best < 0};
  return Ok{};
}

kernels::CudaSampleRow DeviceSampler::row(std::int32_t slot, std::int64_t position, bool draws, bool reports,
                                          std::int32_t target) const {
  return {.position = position,
          .slot = slot,
          .draws = draws ? 1 : 0,
          .target = reports ? target : -1,
          .num_best = std::max(draws ? num_best(slot) : -1, reports ? num_prompt_best(slot) : -1)};
}

kernels::CudaSampleParams DeviceSampler::params(const float* logits, std::int64_t stride) const {
  return {.logits = logits,
          .stride = stride,
          .vocab = layout_.size.vocab,
          .rows = rows(),
          .slots = part<const CudaSampleSlot>(layout_.slots),
          .bias = part<const CudaSampleBias>(layout_.bias),
          .words = part<std::uint32_t>(layout_.words),
          .last_ids = part<std::int32_t>(layout_.last_ids),
          .results = part<kernels::CudaSampleResult>(layout_.results),
          .best = part<kernels::CudaSampleBest>(layout_.best),
          .states = part<kernels::CudaSampleState>(layout_.states),
          .partials = part<std::uint64_t>(layout_.partials),
          .masses = part<std::uint64_t>(layout_.masses),
          .sums = part<double>(layout_.sums),
          .bins = part<std::uint32_t>(layout_.bins),
          .lists = part<std::uint64_t>(layout_.lists),
          .pieces = static_cast<std::int32_t>(layout_.pieces),
          .max_best = kernels::kSampleMaxBest,
          .max_bias = static_cast<std::int32_t>(layout_.max_bias()),
          .weight_bits = kernels::weight_bits(layout_.size.vocab)};
}

void DeviceSampler::launch(CudaStream& stream, const float* logits, std::int64_t stride, std::int64_t num_rows,
                           SampleDepth depth) const {
  PAGODA_CHECK(num_rows > 0 && num_rows <= layout_.size.rows, "{} rows of logits, room for {}", num_rows,
               layout_.size.rows);
  const kernels::CudaSampleParams p = params(logits, stride);
  const auto blocks_a_row = [&](std::int64_t per_sm) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(per_sm * num_sms_ / num_rows, 1, layout_.pieces));
  };
  device::cuda::LaunchConfig config{
      .grid = {.x = blocks_a_row(kernels_.blocks_per_sm + 2), .y = static_cast<std::uint32_t>(num_rows)},
      .block = {.x = kernels::kSampleThreads},
      .programmatic = programmatic_};
  kernels_.extremes.launch(stream, config, p);
  if (depth == SampleDepth::kGreedy) return;
  config.grid.x = blocks_a_row(kernels_.blocks_per_sm);
  config.grid.z = 2;
  kernels_.weigh.launch(stream, config, p);
  kernels_.select.launch(stream, config, p);
}

}  // namespace pagoda::runtime
