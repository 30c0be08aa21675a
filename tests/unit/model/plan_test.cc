#include "model/plan.h"

#include <gtest/gtest.h>

#include "fixtures/tiny_model.h"
#include "model/family.h"

namespace pagoda::model {
namespace {

using fixtures::TinyConfig;
using fixtures::TinyModel;

struct Source {
  explicit Source(const TinyConfig& config)
      : bytes(TinyModel(config).bytes()),
        file(fixtures::open_bytes(bytes).value()),
        description(describe_model(file.config(), file.tensors()).value()) {}

  Result<Plan> plan(const device::DeviceCaps& caps, const PlanOptions& options = {}) const {
    return make_plan(description.spec, description.binding, caps, options);
  }

  std::string bytes;
  io::ModelFile file;
  ModelDescription description;
};

/// A processor that need not be this one.
device::DeviceCaps processor(device::CpuIsa isa) {
  return {.kind = device::DeviceKind::kCpu, .isa = isa, .name = "a processor"};
}

TEST(Plan, IsMadeForProcessorsThatAreNotHere) {
  TinyConfig config;
  config.format = "q4_1";
  const Source source(config);
  for (const auto isa :
       {device::CpuIsa::kPortable, device::CpuIsa::kAvx2, device::CpuIsa::kAvx512, device::CpuIsa::kAvx512Bf16}) {
    const Plan plan = source.plan(processor(isa)).value();
    EXPECT_EQ(plan.kv_dtype, tensor::DType::kF16);
    EXPECT_EQ(plan.activation, tensor::DType::kF32);
    EXPECT_EQ(plan.layers.size(), 3u);
    for (const StageChoice& choice : explain(plan)) {
      EXPECT_FALSE(choice.candidate.empty()) << choice.stage;
      EXPECT_FALSE(choice.reason.empty()) << choice.stage;
    }
  }
}

TEST(Plan, TheReferenceIsExact) {
  const Plan plan = Source({}).plan(device::reference_caps()).value();
  EXPECT_EQ(plan.precision, kernels::Precision::kExact);
  EXPECT_EQ(plan.activation, tensor::DType::kF64);
  EXPECT_EQ(plan.kv_dtype, tensor::DType::kF64);
  for (const KvDType narrow : {KvDType::kF16, KvDType::kBf16}) {
    PlanOptions options;
    options.kv_dtype = narrow;
    const auto refused = Source({}).plan(device::reference_caps(), options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupportedArgument);
    EXPECT_EQ(refused.error().param, "--kv-dtype");
  }
}

// CASES H4: sharing the embedding costs nothing.
TEST(Plan, EachWeightIsStoredOnce) {
  TinyConfig config;
  config.format = "q8_0";
  const Plan tied = Source(config).plan(processor(device::CpuIsa::kPortable)).value();
  config.separate_head = true;
  const Plan separate = Source(config).plan(processor(device::CpuIsa::kPortable)).value();
  EXPECT_EQ(tied.weights.size() + 1, separate.weights.size());
  EXPECT_GE(separate.weight_bytes - tied.weight_bytes, 67 * 160);
  for (const WeightPlan& weight : tied.weights) {
    EXPECT_EQ(weight.layout != nullptr, weight.tensor.matrix) << weight.tensor.entry->name;
    EXPECT_GT(weight.bytes, 0);
  }
}

TEST(Plan, EqualStagesOfSeveralLayersAreOneLine) {
  const std::vector<StageChoice> choices = explain(Source({}).plan(device::reference_caps()).value());
  ASSERT_EQ(choices.size(), 8u);
  EXPECT_EQ(choices[0].stage, "embed");
  EXPECT_EQ(choices[1].stage, "attention_in");
  EXPECT_EQ(choices[1].layers, "0-2");
  TinyConfig gemma;
  gemma.architecture = "gemma3";
  gemma.layers = 8;
  gemma.window = 8;
  const std::vector<StageChoice> mixed = explain(Source(gemma).plan(device::reference_caps()).value());
  std::vector<std::string> attention;
  for (const StageChoice& choice : mixed) {
    if (choice.stage == "attention") attention.push_back(choice.layers);
  }
  EXPECT_EQ(attention, (std::vector<std::string>{"0-4,6-7", "5"}));
}

TEST(Plan, OptionsAreHeldToTheirRange) {
  const Source source({});
  const auto param = [&](auto&& change) {
    PlanOptions options;
    change(options);
    const auto plan = source.plan(processor(device::CpuIsa::kPortable), options);
    return plan.ok() ? std::string() : plan.error().param;
  };
  EXPECT_EQ(param([](PlanOptions&) {}), "");
  EXPECT_EQ(param([](PlanOptions& o) { o.block_size = 7; }), "--block-size");
  EXPECT_EQ(param([](PlanOptions& o) { o.block_size = 24; }), "--block-size");
  EXPECT_EQ(param([](PlanOptions& o) { o.block_size = 512; }), "--block-size");
  EXPECT_EQ(param([](PlanOptions& o) { o.context = 201; }), "--ctx");
  EXPECT_EQ(param([](PlanOptions& o) { o.context = -1; }), "--ctx");
  EXPECT_EQ(param([](PlanOptions& o) { o.max_step_tokens = 0; }), "--prefill-chunk");
  EXPECT_TRUE(parse_kv_dtype("bf16").ok());
  EXPECT_EQ(param([](PlanOptions& o) { o.kv_dtype = parse_kv_dtype("fp8_e4m3").value(); }), "--kv-dtype");  // no GPU
  EXPECT_EQ(parse_kv_dtype("f17").error().code, ErrorCode::kInvalidArgument);
}

TEST(Plan, WhatAGpuDoesNotDoIsRefused) {
  const Source source({});
  const auto param = [&](std::string_view gpu, auto&& change) {
    PlanOptions options;
    change(options);
    const auto plan = source.plan(device::gpu_caps(gpu).value(), options);
    return plan.ok() ? std::string() : plan.error().param;
  };
  EXPECT_EQ(param("h200", [](PlanOptions& o) { o.precision = kernels::Precision::kHigh; }), "--precision");
  EXPECT_EQ(param("h200", [](PlanOptions& o) { o.kv_dtype = KvDType::kF16; }), "--kv-dtype");
  EXPECT_EQ(param("a100", [](PlanOptions& o) { o.kv_dtype = KvDType::kFp8E4m3; }), "--kv-dtype");
  EXPECT_NE(param("h200", [](PlanOptions& o) { o.kv_dtype = KvDType::kFp8E4m3; }), "--kv-dtype");
}

TEST(Plan, PagesOfALayerAreAligned) {
  TinyConfig config;
  config.heads = 1;
  config.head_dim = 10;
  const Plan plan = Source(config).plan(processor(device::CpuIsa::kPortable)).value();
  EXPECT_EQ(plan.page_stride(0) % 64, 0);
  EXPECT_GE(plan.page_stride(0), 16 * 20 * 2);
  EXPECT_EQ(plan.bytes_per_block(0), 3 * plan.page_stride(0));
}

}  // namespace
}  // namespace pagoda::model
