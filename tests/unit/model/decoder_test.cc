// Whole models on the reference device against plain loops.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "fixtures/tiny_model.h"
#include "model/family.h"

namespace pagoda::model {
namespace {

using fixtures::TinyConfig;
using fixtures::TinyModel;

/// One sequence through a decoder, in chunks, over pages in a scattered order.
class Bench {
 public:
  Bench(const TinyModel& model, const device::DeviceCaps& caps, const PlanOptions& options)
      : bytes_(model.bytes()), pool_(2, false), stream_(pool_), device_(caps) {
    file_ = std::make_unique<io::ModelFile>(fixtures::open_bytes(bytes_).value());
    description_ = describe_model(file_->config(), file_->tensors()).value();
    PlanOptions own = options;
    own.workers = pool_.num_threads();
    plan_ = make_plan(description_.spec, description_.binding, caps, own).value();
    weights_ = std::make_unique<Weights>(Weights::load(plan_, *file_, pool_, device_).value());
    blocks_ = ceil_div<std::int64_t>(plan_.options.context, plan_.options.block_size) + 3;
    std::vector<kernels::KvPages> pages;
    for (std::int32_t layer = 0; layer < std::ssize(plan_.layers); ++layer) {
      memory_.push_back(device_.allocate(blocks_ * plan_.page_stride(layer), "pages").value());
      std::fill_n(memory_.back().data(), memory_.back().bytes(), std::byte{0xff});  // NaN in every type
      pages.push_back({.data = memory_.back().data(), .block_stride = plan_.page_stride(layer), .num_blocks = blocks_});
    }
    decoder_ = std::make_unique<Decoder>(Decoder::prepare(plan_, *weights_, pages, device_).value());
  }

  const Plan& plan() const { return plan_; }

  /// Launches of a step of one row, recorded and not run.
  std::size_t launches(std::int64_t tokens, std::int64_t wanted) {
    const std::vector<kernels::GroupInputs> groups(plan_.spec.cache_groups.size());
    device::HostGraph graph;
    stream_.begin_capture(graph);
    decoder_->forward({.step = {.num_tokens = tokens, .num_rows = 1}, .groups = groups, .num_wanted = wanted}, stream_);
    stream_.end_capture();
    return graph.num_nodes();
  }

  using Wants = std::function<bool(std::int64_t token)>;

  /// Logits of the tokens that are wanted.
  std::vector<std::vector<double>> forward(
      const std::vector<std::int32_t>& ids, std::int64_t chunk,
      const Wants& wants = [](std::int64_t) { return true; }) {
    std::vector<std::vector<double>> logits;
    std::vector<std::int32_t> table(static_cast<std::size_t>(blocks_));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(5));
    for (std::int64_t start = 0; start < std::ssize(ids); start += chunk) {
      run_chunk(ids, start, std::min(chunk, std::ssize(ids) - start), table, wants, logits);
    }
    return logits;
  }

 private:
  void run_chunk(const std::vector<std::int32_t>& ids, std::int64_t start, std::int64_t count,
                 const std::vector<std::int32_t>& table, const Wants& wants, std::vector<std::vector<double>>& logits) {
    const std::int64_t block = plan_.options.block_size;
    std::vector<std::int64_t> positions, slots, wanted;
    for (std::int64_t t = start; t < start + count; ++t) {
      if (wants(t)) wanted.push_back(t - start);
      positions.push_back(t);
      slots.push_back(table[static_cast<std::size_t>(t / block)] * block + t % block);
    }
    const std::int64_t offsets[] = {0, count};
    std::vector<std::vector<std::int32_t>> tables;
    std::vector<kernels::GroupInputs> groups;
    for (const CacheGroupSpec& group : plan_.spec.cache_groups) {
      tables.push_back(table);
      // What the first query of the chunk no longer sees has been given back.
      const std::int64_t behind = group.window > 0 ? std::max<std::int64_t>(0, start - group.window + 1) / block : 0;
      std::fill_n(tables.back().begin(), behind, -1);
      groups.push_back({.block_tables = tables.back().data(), .max_blocks = blocks_, .write_slots = slots.data()});
    }
    const DecoderInputs inputs{.ids = ids.data() + start,
                               .step = {.num_tokens = count,
                                        .num_rows = 1,
                                        .positions = positions.data(),
                                        .row_offsets = offsets,
                                        .row_starts = &start},
                               .groups = groups,
                               .wanted = wanted.data(),
                               .num_wanted = std::ssize(wanted)};
    decoder_->forward(inputs, stream_);
    for (std::int64_t first = 0; first < std::ssize(wanted); first += decoder_->head_rows()) {
      const std::int64_t part = std::min(decoder_->head_rows(), std::ssize(wanted) - first);
      decoder_->head(inputs, first, part, stream_);
      for (std::int64_t r = 0; r < part; ++r) {
        std::vector<double> row(static_cast<std::size_t>(plan_.spec.vocab));
        for (std::size_t i = 0; i < row.size(); ++i) {
          row[i] = plan_.activation == tensor::DType::kF64 ? decoder_->logits().row<double>(r)[i]
                                                           : static_cast<double>(decoder_->logits().row<float>(r)[i]);
        }
        logits.push_back(row);
      }
    }
  }

  std::string bytes_;
  ThreadPool pool_;
  device::HostStream stream_;
  device::HostDevice device_;
  std::unique_ptr<io::ModelFile> file_;
  ModelDescription description_;
  Plan plan_;
  std::unique_ptr<Weights> weights_;
  std::int64_t blocks_ = 0;
  std::vector<device::Memory> memory_;
  std::unique_ptr<Decoder> decoder_;
};

double most_different(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      const double difference = std::fabs(a[t][i] - b[t][i]);
      most = difference > most || std::isnan(difference) ? difference : most;
    }
  }
  return most;
}

/// A change that a model must show: what differs from the plain default.
struct Case {
  std::string name;
  TinyConfig config;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"llama", {}});
  TinyConfig two_kv;
  two_kv.heads = 6;
  two_kv.kv_heads = 2;
  two_kv.head_dim = 20;
  two_kv.separate_head = true;
  all.push_back({"llama_heads_wider_than_hidden", two_kv});
  TinyConfig windowed;
  windowed.window = 8;
  all.push_back({"llama_window_8", windowed});
  TinyConfig qwen2;
  qwen2.architecture = "qwen2";
  qwen2.theta = 1e6;
  all.push_back({"qwen2_biases", qwen2});
  TinyConfig qwen3;
  qwen3.architecture = "qwen3";
  qwen3.format = "q8_0";
  all.push_back({"qwen3_norms_q8_0", qwen3});
  TinyConfig gemma;
  gemma.architecture = "gemma3";
  gemma.layers = 7;
  gemma.window = 8;
  gemma.theta = 1e6;
  all.push_back({"gemma3_window_8", gemma});
  gemma.rope_scaling = "linear";
  gemma.rope_factor = 8;
  gemma.format = "q5_0";
  all.push_back({"gemma3_global_layers_scaled", gemma});
  TinyConfig capped;
  capped.attention_softcap = 50;
  capped.logit_softcap = 3;
  capped.gain = 9;  // scores of hundreds: the cap bites
  all.push_back({"softcaps", capped});
  TinyConfig linear;
  linear.rope_scaling = "linear";
  linear.rope_factor = 4;
  all.push_back({"rope_linear", linear});
  TinyConfig yarn;
  yarn.rope_scaling = "yarn";
  yarn.rope_factor = 4;
  yarn.format = "q4_1";
  all.push_back({"rope_yarn_q4_1", yarn});
  TinyConfig divisors;
  divisors.rope_divisors = true;
  divisors.format = "bf16";
  all.push_back({"rope_divisors_bf16", divisors});
  return all;
}

class Reference : public testing::TestWithParam<Case> {};

TEST_P(Reference, EqualsPlainLoops) {
  const TinyModel model(GetParam().config);
  const std::vector<std::int32_t> ids = fixtures::some_ids(43, model.config().vocab);
  const auto expected = model.forward(ids);
  PlanOptions options;
  options.max_step_tokens = 43;
  options.block_size = 8;
  Bench bench(model, device::reference_caps(), options);
  const auto whole = bench.forward(ids, 43);
  EXPECT_LE(most_different(whole, expected), 1e-9);
  for (const std::int64_t chunk : {1, 3, 16, 17}) {
    EXPECT_EQ(most_different(bench.forward(ids, chunk), whole), 0) << "chunks of " << chunk;
  }
}

TEST_P(Reference, TheComparisonSeesAChangedModel) {
  TinyConfig other = GetParam().config;
  other.seed = 2;
  const std::vector<std::int32_t> ids = fixtures::some_ids(5, other.vocab);
  EXPECT_GT(most_different(TinyModel(GetParam().config).forward(ids), TinyModel(other).forward(ids)), 1e-2);
}

TEST_P(Reference, CpuIsNear) {
  const TinyModel model(GetParam().config);
  const std::vector<std::int32_t> ids = fixtures::some_ids(43, model.config().vocab);
  const auto expected = model.forward(ids);
  double largest = 0;
  for (const auto& row : expected) {
    for (const double logit : row) largest = std::max(largest, std::fabs(logit));
  }
  PlanOptions options;
  options.max_step_tokens = 43;
  options.precision = kernels::Precision::kHigh;
  Bench bench(model, device::cpu_caps(device::detect_isa()).value(), options);
  const auto whole = bench.forward(ids, 43);
  EXPECT_LE(most_different(whole, expected), 3e-3 * std::max(1.0, largest) * model.config().gain);
  for (const std::int64_t chunk : {1, 3, 16, 17}) {
    EXPECT_EQ(most_different(bench.forward(ids, chunk), whole), 0) << "chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Reference, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// What the last layer leaves out for tokens that nobody wants: nothing that reaches one that is wanted, in its step or
// in a later one.
TEST_P(Reference, UnwantedTokensChangeNoBit) {
  const TinyModel model(GetParam().config);
  const std::vector<std::int32_t> ids = fixtures::some_ids(43, model.config().vocab);
  PlanOptions options;
  options.max_step_tokens = 43;
  options.block_size = 8;
  options.max_rows = 16;  // 21 of 43 are more than the last layer is narrowed to
  for (const device::DeviceCaps& caps : {device::reference_caps(), device::cpu_caps(device::detect_isa()).value()}) {
    Bench bench(model, caps, options);
    const auto whole = bench.forward(ids, 43);
    for (const std::int64_t chunk : {43, 17, 2}) {
      for (const std::int64_t each : {2, 3, 43}) {
        const auto wants = [&](std::int64_t token) { return token % each == each - 1; };
        std::vector<std::vector<double>> expected;
        for (std::int64_t t = 0; t < 43; ++t) {
          if (wants(t)) expected.push_back(whole[static_cast<std::size_t>(t)]);
        }
        EXPECT_EQ(most_different(bench.forward(ids, chunk, wants), expected), 0)
            << caps.name << ", one of " << each << " in chunks of " << chunk;
      }
    }
  }
}

TEST(Model, LaunchesOfAStepFollowFromWhatItWants) {
  PlanOptions options;
  options.max_step_tokens = 43;
  options.max_rows = 16;
  Bench bench(TinyModel({}), device::reference_caps(), options);
  const std::size_t all = bench.launches(43, 43);
  EXPECT_EQ(bench.launches(43, 17), all) << "more than are gathered";
  EXPECT_EQ(bench.launches(43, 16), all + 2) << "two buffers are gathered";
  EXPECT_EQ(bench.launches(43, 1), all + 2);
  EXPECT_LT(bench.launches(43, 0), all) << "the last layer ends with its keys";
  EXPECT_EQ(bench.launches(1, 0), bench.launches(1, 1)) << "as it is recorded";
}

/// Each property that a file can declare changes the result: none is dropped on the way.
TEST(Model, EveryDeclaredPropertyCounts) {
  const std::vector<std::int32_t> ids = fixtures::some_ids(30, 67);
  for (const Case& each : cases()) {
    TinyConfig without = each.config;
    without.window = each.config.gemma() ? 100 : 0;
    without.attention_softcap = without.logit_softcap = 0;
    without.rope_scaling.clear();
    const bool differs =
        without.window != each.config.window || each.config.attention_softcap > 0 || !each.config.rope_scaling.empty();
    if (!differs) continue;
    EXPECT_GT(most_different(TinyModel(each.config).forward(ids), TinyModel(without).forward(ids)), 1e-3) << each.name;
  }
}

}  // namespace
}  // namespace pagoda::model
