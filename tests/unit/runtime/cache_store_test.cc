#include "runtime/cache_store.h"

#include <gtest/gtest.h>

#include "fixtures/tiny_model.h"
#include "model/family.h"

namespace pagoda::runtime {
namespace {

model::Plan plan_of(const fixtures::TinyConfig& config, const model::PlanOptions& options = {}) {
  const std::string bytes = fixtures::TinyModel(config).bytes();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  const model::ModelDescription description = model::describe_model(file.config(), file.tensors()).value();
  model::Plan plan = model::make_plan(description.spec, description.binding, device::reference_caps(), options).value();
  for (model::WeightPlan& weight : plan.weights) weight.tensor.entry = nullptr;
  return plan;
}

fixtures::TinyConfig gemma() {
  fixtures::TinyConfig config;
  config.architecture = "gemma3";
  config.layers = 7;
  config.window = 8;
  config.context = 10000;
  return config;
}

std::int64_t bytes_of(const std::vector<kv::GroupConfig>& groups) {
  std::int64_t bytes = 0;
  for (const kv::GroupConfig& group : groups) bytes += group.block_count * group.bytes_per_block;
  return bytes;
}

TEST(SizeCache, NothingSaidIsTheContext) {
  const model::Plan plan = plan_of({});
  const auto groups = size_cache(plan, {}).value();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].block_count, 13) << "200 tokens in blocks of 16";
  EXPECT_EQ(groups[0].bytes_per_block, 3 * 16 * 64 * 8);
  EXPECT_EQ(groups[0].num_layers, 3);
}

TEST(SizeCache, WindowedGroupsHaveWhatRowsCanHold) {
  model::PlanOptions options;
  options.max_rows = 2;
  options.max_step_tokens = 33;
  const auto groups = size_cache(plan_of(gemma(), options), {}).value();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].window, 8);
  EXPECT_EQ(groups[0].block_count, 2 * 2 * groups[0].peak_blocks(10000, 33));
  EXPECT_EQ(groups[1].block_count, 625);
}

TEST(SizeCache, BytesAreNeverPassed) {
  const model::Plan plan = plan_of(gemma());
  const std::int64_t least = bytes_of(size_cache(plan, {.tokens = 16}).value());
  for (const std::int64_t bytes : {least, least + 1, 3 * least - 1, std::int64_t{40000000}, std::int64_t{1} << 33}) {
    const auto groups = size_cache(plan, {.bytes = bytes}).value();
    EXPECT_LE(bytes_of(groups), bytes);
    const std::int64_t more = (groups[1].block_count + 1) * 16;
    EXPECT_GT(bytes_of(size_cache(plan, {.tokens = more}).value()), bytes) << "one block more would not fit";
  }
  const auto refused = size_cache(plan, {.bytes = least - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "--kv-bytes");
  EXPECT_EQ(size_cache(plan, {.tokens = -5}).error().param, "--kv-tokens");
}

TEST(CacheStore, LayersHavePagesOfTheirOwn) {
  const model::Plan plan = plan_of(gemma());
  const auto groups = size_cache(plan, {.tokens = 160}).value();
  device::HostDevice device(plan.caps);
  const CacheStore store = CacheStore::create(plan, groups, device).value();
  ASSERT_EQ(store.pages().size(), 7u);
  EXPECT_EQ(store.bytes(), bytes_of(groups));
  for (std::size_t i = 0; i + 1 < 7; ++i) {
    const std::int64_t blocks = groups[i == 5 ? 1 : 0].block_count;
    EXPECT_EQ(store.pages()[i + 1].data - store.pages()[i].data, blocks * store.pages()[i].block_stride);
  }
}

}  // namespace
}  // namespace pagoda::runtime
