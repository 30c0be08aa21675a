// What of device sampling needs no GPU: where things lie, what a slot uploads, and that the kernels compile.
#include "runtime/device_sampler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "device/cuda/compiler.h"
#include "kernels/cuda/embedded.h"

namespace pagoda::runtime {
namespace {

using kernels::CudaSampleSlot;

const DeviceSamplerSize kSize{.vocab = 5003, .slots = 7, .rows = 5};

TEST(SampleLayout, PartsFollowEachOther) {
  const SampleLayout layout = SampleLayout::of(kSize).value();
  EXPECT_EQ(layout.pieces, 5);
  const std::int64_t begins[] = {layout.slots,   layout.bias, layout.words,  layout.last_ids, layout.rows,
                                 layout.results, layout.best, layout.states, layout.partials, layout.masses,
                                 layout.sums,    layout.bins, layout.lists,  layout.bytes};
  const std::int64_t sizes[] = {
      7 * 80,          7 * 1024 * 8,  7 * 5003 * 4,  7 * 4,
      5 * 24,          5 * 16,        5 * 128 * 8,   5 * std::int64_t{sizeof(kernels::CudaSampleState)},
      5 * 5 * 2 * 8,   5 * 5 * 8 * 8, 5 * 5 * 8 * 8, 5 * 2 * 1024 * 4,
      5 * 2 * 2048 * 8};
  EXPECT_EQ(begins[0], 0);
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    EXPECT_EQ(begins[i] % 256, 0) << i;
    EXPECT_GE(begins[i + 1] - begins[i], sizes[i]) << i;
    EXPECT_LT(begins[i + 1] - begins[i], sizes[i] + 256) << i;
  }
}

TEST(SampleLayout, VocabulariesThatKernelsTake) {
  EXPECT_TRUE(SampleLayout::of({.vocab = 1, .slots = 1, .rows = 1}).ok());
  EXPECT_TRUE(SampleLayout::of({.vocab = 1 << 20, .slots = 1, .rows = 1}).ok());
  for (const std::int64_t vocab : {std::int64_t{0}, std::int64_t{(1 << 20) + 1}}) {
    EXPECT_EQ(SampleLayout::of({.vocab = vocab, .slots = 1, .rows = 1}).error().code, ErrorCode::kUnsupportedArgument);
  }
}

/// A slot's upload, taken apart.
struct Upload {
  std::vector<SlotCopy> copies;
  std::vector<std::byte> staging;
  CudaSampleSlot slot;

  template <class T>
  std::vector<T> read(std::size_t copy) const {
    std::vector<T> out(static_cast<std::size_t>(copies[copy].bytes) / sizeof(T));
    std::memcpy(out.data(), staging.data() + copies[copy].from, static_cast<std::size_t>(copies[copy].bytes));
    return out;
  }
};

Result<Upload> upload(const SamplingParams& sampling, SlotSetup setup = {}, const DeviceSamplerSize& size = kSize) {
  const SampleLayout layout = SampleLayout::of(size).value();
  setup.sampling = &sampling;
  Upload out;
  out.staging.assign(static_cast<std::size_t>(slot_staging_bytes(layout)), std::byte{0xa5});
  out.copies = PAGODA_TRY(write_slot(layout, 3, setup, out.staging));
  EXPECT_EQ(out.copies[0].to, layout.slots + 3 * 80);
  EXPECT_EQ(out.copies[0].bytes, 80);
  out.slot = out.read<CudaSampleSlot>(0)[0];
  return out;
}

TEST(WriteSlot, AnOrdinarySlotIsItsSettingsAlone) {
  const Upload greedy = upload({}).value();
  EXPECT_EQ(greedy.copies.size(), 1u);
  EXPECT_EQ(greedy.slot.flags, kernels::kSampleGreedy);

  SlotSetup setup;
  setup.seed = 0xfedcba9876543210;
  setup.choice = 2;
  const SamplingParams params{.temperature = 0.5f, .top_k = 40, .top_p = 0.75f, .min_p = 0.125f};
  const Upload drawn = upload(params, setup).value();
  EXPECT_EQ(drawn.copies.size(), 1u);
  EXPECT_EQ(drawn.slot.flags, 0u);
  EXPECT_EQ(drawn.slot.inverse, 2);
  EXPECT_EQ(drawn.slot.top_k, 40);
  EXPECT_EQ(drawn.slot.top_p, 0.75);
  EXPECT_EQ(drawn.slot.min_p, 0.125);
  EXPECT_EQ(drawn.slot.seed, 0xfedcba9876543210);
  EXPECT_EQ(drawn.slot.choice, 2u);
  EXPECT_EQ(upload({.temperature = 1.0f, .top_k = 5003}).value().slot.top_k, 0) << "the whole vocabulary: off";
  EXPECT_EQ(upload({.temperature = 1.0f, .top_k = 5002}).value().slot.top_k, 5002);
  EXPECT_EQ(upload({.temperature = 1.0f, .top_k = 1}).value().slot.flags, kernels::kSampleGreedy);
}

// CASES D6: repetition is over prompt and output, presence and frequency over output.
TEST(WriteSlot, WordsOfSeenTokens) {
  const std::vector<std::int32_t> tokens = {4, 9, 4, 9, 9, 5002};
  const Upload out = upload({.repetition_penalty = 2.0f, .presence_penalty = 0.5f, .frequency_penalty = -0.25f},
                            {.tokens = tokens, .prompt_tokens = 3, .end_ids = {}})
                         .value();
  EXPECT_EQ(out.slot.flags, kernels::kSampleGreedy | kernels::kSamplePenalises | kernels::kSampleWords);
  EXPECT_EQ(out.slot.repetition_penalty, 2);
  EXPECT_EQ(out.slot.presence_penalty, 0.5);
  EXPECT_EQ(out.slot.frequency_penalty, -0.25);
  ASSERT_EQ(out.copies.size(), 2u);
  EXPECT_EQ(out.copies[1].to, SampleLayout::of(kSize).value().words + 3 * 5003 * 4);
  std::vector<std::uint32_t> expected(5003, 0);
  expected[4] = kernels::kSampleSeen;
  expected[9] = kernels::kSampleSeen + 2;
  expected[5002] = kernels::kSampleSeen + 1;
  EXPECT_EQ(out.read<std::uint32_t>(1), expected);
}

TEST(WriteSlot, BiasesAndEnds) {
  const std::vector<std::int32_t> ends = {2, 8};
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const SamplingParams params{.logit_bias = {{70, 1.5f}, {8, -100.0f}}, .min_tokens = 5};
  const Upload out = upload(params, {.tokens = tokens, .prompt_tokens = 3, .end_ids = ends}).value();
  EXPECT_EQ(out.slot.flags, kernels::kSampleGreedy | kernels::kSampleWords);
  EXPECT_EQ(out.slot.first_end, 8);
  EXPECT_EQ(out.slot.num_bias, 2);
  ASSERT_EQ(out.copies.size(), 3u);
  EXPECT_EQ(out.copies[1].to, SampleLayout::of(kSize).value().bias + 3 * 1024 * 8);
  const auto bias = out.read<kernels::CudaSampleBias>(1);
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_EQ(bias[0].id, 8) << "in order of ids";
  EXPECT_EQ(bias[0].value, -100);
  EXPECT_EQ(bias[1].id, 70);
  std::vector<std::uint32_t> expected(5003, 0);
  expected[2] = kernels::kSampleEnds;
  expected[8] = kernels::kSampleEnds | kernels::kSampleBiased;
  expected[70] = kernels::kSampleBiased;
  EXPECT_EQ(out.read<std::uint32_t>(2), expected);
  EXPECT_EQ(upload({}, {.tokens = {}, .end_ids = ends}).value().copies.size(), 1u)
      << "nothing is held back without min_tokens";
}

// Ids without a token have a bias of -inf in every slot, and take no place from a request's own biases.
TEST(WriteSlot, IdsThatAreNeverDrawn) {
  DeviceSamplerSize size = kSize;
  size.never_drawn = {77};
  for (std::int32_t id = 4990; id < 5003; ++id) size.never_drawn.push_back(id);
  const SampleLayout layout = SampleLayout::of(size).value();
  EXPECT_EQ(layout.max_bias(), 1038);
  EXPECT_GE(layout.words - layout.bias, 7 * 1038 * 8);
  const Upload plain = upload({}, {}, size).value();
  EXPECT_EQ(plain.slot.flags, kernels::kSampleGreedy | kernels::kSampleWords);
  EXPECT_EQ(plain.slot.num_bias, 14);
  ASSERT_EQ(plain.copies.size(), 3u);
  EXPECT_EQ(plain.copies[1].to, layout.bias + 3 * 1038 * 8);
  const auto words = plain.read<std::uint32_t>(2);
  ASSERT_EQ(words.size(), 5003u);
  for (std::int32_t id = 0; id < 5003; ++id) {
    const bool never = id == 77 || id >= 4990;
    EXPECT_EQ(words[static_cast<std::size_t>(id)], never ? kernels::kSampleBiased : 0u) << id;
  }
  SamplingParams params;
  for (std::int32_t id = 100; id < 1124; ++id) params.logit_bias.emplace_back(id, 1.0f);
  const std::vector<std::int32_t> ends = {80};
  params.min_tokens = 3;
  const Upload full = upload(params, {.tokens = {}, .end_ids = ends}, size).value();
  const auto bias = full.read<kernels::CudaSampleBias>(1);
  ASSERT_EQ(bias.size(), 1038u);
  for (std::size_t i = 0; i < bias.size(); ++i) {
    const bool never = bias[i].id == 77 || bias[i].id >= 4990;
    EXPECT_EQ(bias[i].value, never ? -std::numeric_limits<float>::infinity() : 1.0f) << bias[i].id;
    if (i > 0) {
      EXPECT_LT(bias[i - 1].id, bias[i].id);
    }
  }
  EXPECT_EQ(full.read<std::uint32_t>(2)[80], kernels::kSampleEnds);
  params.logit_bias.emplace_back(99, 1.0f);
  EXPECT_EQ(upload(params, {}, size).error().param, "logit_bias");
  EXPECT_EQ(upload({.logit_bias = {{4990, 1.0f}}}, {}, size).error().param, "logit_bias");
}

TEST(WriteSlot, WhatThereIsNoRoomFor) {
  SamplingParams params;
  for (std::int32_t id = 0; id < 1025; ++id) params.logit_bias.emplace_back(id, 1.0f);
  EXPECT_EQ(upload(params).error().param, "logit_bias");
  params.logit_bias.pop_back();
  EXPECT_TRUE(upload(params).ok());
  EXPECT_EQ(upload({.logprobs = 129}).error().param, "logprobs");
  EXPECT_EQ(upload({.logprobs = 129}).error().code, ErrorCode::kUnsupportedArgument);
  EXPECT_TRUE(upload({.logprobs = 128}).ok());
  EXPECT_EQ(upload({}, {.tokens = {}, .end_ids = {}, .prompt_best = 129}).error().param, "prompt_logprobs");
  EXPECT_EQ(upload({.top_p = 0.0f}).error().code, ErrorCode::kInvalidArgument) << "as on the host";
}

TEST(SampleKernels, CompileForEveryArchitecture) {
  auto nvrtc = device::cuda::Nvrtc::load();
  if (!nvrtc.ok()) {  // a machine without it takes packed kernels
    EXPECT_EQ(nvrtc.error().code, ErrorCode::kDeviceMissing);
    return;
  }
  std::vector<device::CompileUnit> units;
  for (const std::int32_t major : {8, 9, 10, 12}) units.push_back(SampleKernels::unit({.compute_major = major}));
  EXPECT_EQ(units[3].architecture, "sm_120");
  device::cuda::Compiler compiler({.sources = kernels::embedded_sources(), .nvrtc = *nvrtc, .num_threads = 2});
  const Status status = compiler.compile_all(units);
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(compiler.counters().failed, 0);
}

}  // namespace
}  // namespace pagoda::runtime
