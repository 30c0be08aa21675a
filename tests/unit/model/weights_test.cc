#include "model/weights.h"

#include <gtest/gtest.h>

#include <atomic>

#include "fixtures/tiny_model.h"
#include "model/family.h"

namespace pagoda::model {
namespace {

using fixtures::TinyConfig;
using fixtures::TinyModel;

/// A file that shrinks: reads past a number of bytes fail once `cut` is set.
class ShrinkingSource final : public io::ByteSource {
 public:
  ShrinkingSource(std::string bytes, std::atomic<std::uint64_t>* cut) : bytes_(std::move(bytes)), cut_(cut) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (offset + into.size() > *cut_) return fail(ErrorCode::kFileChanged, "{} shrank", name_);
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return Ok{};
  }

 private:
  std::string name_ = "shrinking.gguf";
  std::string bytes_;
  std::atomic<std::uint64_t>* cut_;
};

struct Source {
  explicit Source(const TinyConfig& config, const device::DeviceCaps& caps)
      : model(config),
        file(io::open_gguf(std::make_unique<ShrinkingSource>(model.bytes(), &cut)).value()),
        description(describe_model(file.config(), file.tensors()).value()),
        plan(make_plan(description.spec, description.binding, caps, {}).value()) {}

  std::atomic<std::uint64_t> cut{std::uint64_t{1} << 40};
  TinyModel model;
  io::ModelFile file;
  ModelDescription description;
  Plan plan;
};

std::vector<device::DeviceCaps> devices() {
  return {device::reference_caps(), device::cpu_caps(device::CpuIsa::kPortable).value(),
          device::cpu_caps(device::detect_isa()).value()};
}

TEST(Weights, EveryLayoutHoldsTheFilesValues) {
  for (const char* format : {"f32", "bf16", "q4_1", "q5_0", "q8_0"}) {
    TinyConfig config;
    config.format = format;
    config.separate_head = true;
    for (const device::DeviceCaps& caps : devices()) {
      Source source(config, caps);
      ThreadPool pool(2, false);
      device::HostDevice device(caps);
      const Weights weights = Weights::load(source.plan, source.file, pool, device).value();
      EXPECT_EQ(weights.bytes(), source.plan.weight_bytes);
      for (const WeightPlan& each : source.plan.weights) {
        if (each.layout == nullptr) continue;
        const kernels::LinearWeight weight = weights.matrix(each.tensor.role, each.tensor.layer);
        std::vector<float> packed(static_cast<std::size_t>(weight.shape.k)), expected(packed.size());
        std::vector<std::byte> row(static_cast<std::size_t>(each.format->row_bytes(weight.shape.k)));
        for (const std::int64_t r : {std::int64_t{0}, weight.shape.n / 2, weight.shape.n - 1}) {
          ASSERT_TRUE(source.file.read_rows(*each.tensor.entry, r, 1, row).ok());
          each.format->decode_row(row.data(), weight.shape.k, expected.data());
          each.layout->decode_row(*each.format, weight.shape, weight.data, r, packed.data());
          EXPECT_EQ(packed, expected) << each.tensor.entry->name << " in " << each.layout->name << ", row " << r;
        }
      }
    }
  }
}

TEST(Weights, VectorsAreFloatsAndBiasesFindTheirMatrix) {
  TinyConfig config;
  config.architecture = "qwen2";
  Source source(config, device::reference_caps());
  ThreadPool pool(1);
  device::HostDevice device(device::reference_caps());
  const Weights weights = Weights::load(source.plan, source.file, pool, device).value();
  ASSERT_NE(weights.vector(Role::kAttentionNorm, 1), nullptr);
  EXPECT_EQ(weights.vector(Role::kQueryNorm, 1), nullptr);
  EXPECT_EQ(weights.matrix(Role::kQuery, 2, Role::kQueryBias).bias, weights.vector(Role::kQueryBias, 2));
  EXPECT_EQ(weights.matrix(Role::kGate, 2, Role::kGateBias).bias, nullptr);
}

TEST(Weights, ProgressGrowsToTheWhole) {
  TinyConfig config;
  config.vocab = 9001;  // several pieces
  Source source(config, device::reference_caps());
  ThreadPool pool(1);
  std::vector<std::pair<std::int64_t, std::int64_t>> seen;
  const auto progress = [&](std::int64_t done, std::int64_t total) { seen.emplace_back(done, total); };
  device::HostDevice device(device::reference_caps());
  ASSERT_TRUE(Weights::load(source.plan, source.file, pool, device, progress).ok());
  std::int64_t bytes = 0;
  for (const io::TensorEntry& entry : source.file.tensors().entries()) bytes += static_cast<std::int64_t>(entry.bytes);
  ASSERT_GT(seen.size(), 5u);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].second, bytes);
    EXPECT_GT(seen[i].first, i > 0 ? seen[i - 1].first - 1 : 0);
  }
  EXPECT_EQ(seen.back().first, bytes);
}

TEST(Weights, AFileThatShrinksIsAnError) {
  TinyConfig config;
  for (const int threads : {1, 2}) {
    Source source(config, device::reference_caps());
    ThreadPool pool(threads, false);
    source.cut = source.file.tensors().entries()[9].offset + 3;
    device::HostDevice device(device::reference_caps());
    const auto weights = Weights::load(source.plan, source.file, pool, device);
    ASSERT_FALSE(weights.ok());
    EXPECT_EQ(weights.error().code, ErrorCode::kFileChanged);
  }
}

}  // namespace
}  // namespace pagoda::model
