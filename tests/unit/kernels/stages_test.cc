// One layer and the head, run through the stages on every set of instructions against the reference device: norms
// before, or before and after; formats mixed within a stage; whole prompts and pieces.
#include <gtest/gtest.h>

#include <cstring>

#include "base/checked.h"
#include "kernels/stages/attention.h"
#include "kernels/stages/attention_in.h"
#include "kernels/stages/ffn_in.h"
#include "kernels/stages/head.h"
#include "kernels/stages/sublayer_out.h"
#include "quant/formats.h"
#include "unit/kernels/candidate_runs.h"
#include "unit/kernels/linear_cases.h"

namespace pagoda::kernels {
namespace {

using tensor::DType;
using tensor::matrix;
using testing::AlignedBytes;
using testing::normal_floats;
using testing::OwnedWeight;

struct LayerCase {
  std::int64_t hidden, heads, kv_heads, key_dim, value_dim, ffn, vocab, block_size;
  std::array<std::string, 3> qkv;
  std::string rest;
  bool norm_before, norm_after;
  double cap;
  ActivationKind activation;
};

const std::vector<LayerCase>& cases() {
  static const std::vector<LayerCase> all = {
      {96, 3, 1, 32, 32, 160, 50, 16, {"q4_1", "q4_1", "q4_1"}, "q4_1", true, false, 0, ActivationKind::kSilu},
      {64, 4, 2, 24, 40, 96, 33, 8, {"f32", "q8_0", "f16"}, "q8_0", true, true, 5, ActivationKind::kGeluTanh},
      {40, 2, 2, 20, 20, 24, 70, 32, {"f32", "bf16", "f32"}, "f32", false, true, 0, ActivationKind::kSilu},
  };
  return all;
}

constexpr std::int64_t kTokens = 45;

/// All of a layer on one device, `T` its activations.
template <class T>
class Layer {
 public:
  Layer(const LayerCase& c, const device::DeviceCaps& caps) : c_(c), caps_(caps), pool_(2, false), stream_(pool_) {
    const bool reference = caps.kind == device::DeviceKind::kReference;
    layout_ = {reference ? DType::kF64 : DType::kF32, c.block_size, c.kv_heads, c.key_dim, c.value_dim};
    blocks_ = ceil_div(kTokens, c.block_size);
    pages_ = AlignedBytes(static_cast<std::size_t>(blocks_ * stride()), 0xff);
    norm_ = normal_floats(std::max(c.hidden, c.key_dim), 77, 0.3);
    for (float& weight : norm_) weight += 1;
    prepare_attention();
    prepare_feed_forward();
  }

  /// The logits of every token, the prompt given in pieces.
  std::vector<double> run(const std::vector<std::int64_t>& pieces) {
    std::vector<double> logits;
    std::int64_t start = 0;
    for (const std::int64_t count : pieces) {
      const std::vector<T> part = run_piece(start, count);
      logits.insert(logits.end(), part.begin(), part.end());
      start += count;
    }
    return logits;
  }

 private:
  std::int64_t stride() const { return round_up<std::int64_t>(layout_.block_bytes(), 64); }
  RmsNormProblem norm_problem() const {
    return {.activation = tensor::dtype_of<T>(), .hidden = c_.hidden, .epsilon = 1e-5};
  }

  /// Weights of these formats and widths, packed as the chosen candidate reads them.
  LinearProblem product(std::vector<std::string> formats, std::vector<std::int64_t> n, std::int64_t k) {
    LinearProblem problem;
    problem.k = k;
    problem.num_weights = static_cast<int>(n.size());
    problem.precision = std::is_same_v<T, double> ? Precision::kExact : Precision::kHigh;
    problem.max_m = kTokens;
    problem.activation = tensor::dtype_of<T>();
    for (std::size_t i = 0; i < n.size(); ++i)
      problem.weights[i] = {quant::find_format(formats[i]), nullptr, n[i], false};
    if (first_linear_kernel(problem, caps_) == nullptr) {  // no candidate reads the mixture: each weight by itself
      for (std::size_t i = 0; i < n.size(); ++i) {
        LinearProblem one = problem;
        one.weights[0] = problem.weights[i];
        one.num_weights = 1;
        PAGODA_CHECK(first_linear_kernel(one, caps_) != nullptr);
        problem.weights[i].layout = one.weights[0].layout;
      }
    }
    for (std::size_t i = 0; i < n.size(); ++i) {
      const LinearWeightSpec& spec = problem.weights[i];
      const WeightShape shape{spec.n, k};
      const auto rows = testing::random_rows(*spec.format, shape, static_cast<unsigned>(weights_.size() + 1));
      weights_.push_back(
          std::make_unique<OwnedWeight>(testing::pack_weight(*spec.format, *spec.layout, shape, rows, {})));
    }
    return problem;
  }
  LinearWeight last_weight(std::size_t back) const { return weights_[weights_.size() - back]->weight; }

  template <class Kernel, class Problem, class Weights>
  auto prepare(std::span<const Kernel> kernels, const Problem& problem, const Weights& weights) {
    const Kernel* kernel = choose(kernels, problem, caps_);
    PAGODA_CHECK(kernel != nullptr);
    scratch_bytes_ = std::max(scratch_bytes_, kernel->scratch_bytes(problem, caps_));
    device::HostDevice device(caps_);
    return kernel->prepare(problem, weights, device).value();
  }

  void prepare_attention() {
    AttentionInProblem in{
        .has_norm = c_.norm_before, .norm = norm_problem(), .product = {}, .post = {}, .layout = layout_};
    in.product = product({c_.qkv.begin(), c_.qkv.end()},
                         {c_.heads * c_.key_dim, c_.kv_heads * c_.key_dim, c_.kv_heads * c_.value_dim}, c_.hidden);
    in.post.activation = tensor::dtype_of<T>();
    in.post.num_heads = c_.heads;
    in.post.num_kv_heads = c_.kv_heads;
    in.post.key_dim = c_.key_dim;
    in.post.value_dim = c_.value_dim;
    in.post.norm = c_.norm_after ? QkvNorm::kQueryKey : QkvNorm::kNone;
    in.post.rope = {.head_dim = c_.key_dim, .rotary_dim = c_.key_dim};
    attention_in_ =
        prepare(attention_in_kernels(), in,
                AttentionInWeights{{norm_.data()},
                                   {last_weight(3), last_weight(2), last_weight(1)},
                                   {norm_.data(), norm_.data(), std::make_shared<RopeTable>(in.post.rope, kTokens)}});
    const AttentionProblem attention{.activation = tensor::dtype_of<T>(),
                                     .precision = Precision::kHigh,
                                     .layout = layout_,
                                     .num_heads = c_.heads,
                                     .scale = 1 / std::sqrt(static_cast<double>(c_.key_dim)),
                                     .max_rows = 1,
                                     .max_context = kTokens,
                                     .workers = 2};
    attention_ = prepare(attention_kernels(), attention, AttentionWeights{});
    const LinearProblem out = product({c_.rest}, {c_.hidden}, c_.heads * c_.value_dim);
    attention_out_ = prepare(attention_out_kernels(), SublayerOutProblem{out, residual()},
                             SublayerOutWeights{last_weight(1), {norm_.data()}});
  }

  ResidualProblem residual() const {
    return {.activation = tensor::dtype_of<T>(), .hidden = c_.hidden, .scale = 0.7f, .norm = c_.norm_after};
  }

  void prepare_feed_forward() {
    FfnInProblem in{.has_norm = c_.norm_before, .norm = norm_problem(), .product = {}, .activation = {}};
    in.product = product({c_.rest, c_.rest}, {c_.ffn, c_.ffn}, c_.hidden);
    in.activation = {.activation = tensor::dtype_of<T>(), .width = c_.ffn, .kind = c_.activation};
    ffn_in_ = prepare(ffn_in_kernels(), in, FfnInWeights{{norm_.data()}, {last_weight(2), last_weight(1)}});
    const LinearProblem out = product({c_.rest}, {c_.hidden}, c_.ffn);
    ffn_out_ = prepare(ffn_out_kernels(), SublayerOutProblem{out, residual()},
                       SublayerOutWeights{last_weight(1), {norm_.data()}});
    const LinearProblem head = product({c_.rest}, {c_.vocab}, c_.hidden);
    head_ = prepare(head_kernels(), HeadProblem{norm_problem(), head, c_.cap, 1},
                    HeadWeights{{norm_.data()}, last_weight(1)});
  }

  std::vector<T> run_piece(std::int64_t start, std::int64_t count) {
    const std::vector<float> all = normal_floats(kTokens * c_.hidden, 5);
    std::vector<T> residual(all.begin() + start * c_.hidden, all.begin() + (start + count) * c_.hidden);
    auto query = testing::poisoned<T>(count * c_.heads * c_.key_dim);
    auto attended = testing::poisoned<T>(count * c_.heads * c_.value_dim);
    auto activated = testing::poisoned<T>(count * c_.ffn);
    auto hidden = testing::poisoned<T>(count * c_.hidden);
    auto logits = testing::poisoned<T>(count * c_.vocab);
    std::vector<std::int64_t> positions(static_cast<std::size_t>(count)), slots, wanted(positions);
    for (std::int64_t i = 0; i < count; ++i) positions[static_cast<std::size_t>(i)] = start + i;
    std::vector<std::int32_t> table;
    for (std::int64_t block = 0; block < blocks_; ++block)
      table.push_back(static_cast<std::int32_t>(blocks_ - 1 - block));
    for (const std::int64_t position : positions) {
      slots.push_back(table[static_cast<std::size_t>(position / c_.block_size)] * c_.block_size +
                      position % c_.block_size);
    }
    // The last token's logits first: the head reads rows by index.
    for (std::int64_t i = 0; i < count; ++i) wanted[static_cast<std::size_t>(i)] = count - 1 - i;
    const std::vector<std::int64_t> offsets{0, count}, starts{start};
    const StepInputs step{count, 1, positions.data(), offsets.data(), starts.data()};
    const GroupInputs group{table.data(), blocks_, slots.data()};
    const KvPages pages{pages_.data(), stride()};
    const AlignedBytes scratch(scratch_bytes_, 0xff);
    const auto stream_view = matrix(residual.data(), count, c_.hidden);
    const auto attended_view = matrix(attended.data(), count, c_.heads * c_.value_dim);
    const auto query_view = matrix(query.data(), count, c_.heads * c_.key_dim);
    const auto activated_view = matrix(activated.data(), count, c_.ffn);
    attention_in_.launch({stream_view, query_view, step, group, pages, scratch.data()}, stream_);
    attention_.launch({query_view, attended_view, step, group, pages, scratch.data()}, stream_);
    attention_out_.launch({attended_view, stream_view, scratch.data()}, stream_);
    ffn_in_.launch({stream_view, activated_view, scratch.data()}, stream_);
    ffn_out_.launch({activated_view, stream_view, scratch.data()}, stream_);
    head_.launch({stream_view, wanted.data(), count, matrix(hidden.data(), count, c_.hidden),
                  matrix(logits.data(), count, c_.vocab), scratch.data()},
                 stream_);
    std::vector<T> ordered;
    for (std::int64_t i = count - 1; i >= 0; --i) {
      ordered.insert(ordered.end(), logits.begin() + i * c_.vocab, logits.begin() + (i + 1) * c_.vocab);
    }
    return ordered;
  }

  LayerCase c_;
  device::DeviceCaps caps_;
  ThreadPool pool_;
  device::HostStream stream_;
  KvLayout layout_;
  std::int64_t blocks_ = 0;
  AlignedBytes pages_;
  std::vector<float> norm_;
  std::vector<std::unique_ptr<OwnedWeight>> weights_;
  std::size_t scratch_bytes_ = 0;
  AttentionInStep attention_in_;
  AttentionStep attention_;
  SublayerOutStep attention_out_, ffn_out_;
  FfnInStep ffn_in_;
  HeadStep head_;
};

double error_of(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::fabs(x));
  return testing::largest_relative_error(got, want, largest);
}

TEST(Stages, ALayerIsNearTheReferenceOnEverySetOfInstructions) {
  for (std::size_t i = 0; i < cases().size(); ++i) {
    const LayerCase& c = cases()[i];
    const std::vector<double> want = Layer<double>(c, device::reference_caps()).run({kTokens});
    for (const device::CpuIsa isa :
         {device::CpuIsa::kPortable, device::CpuIsa::kAvx2, device::CpuIsa::kAvx512, device::CpuIsa::kAvx512Bf16}) {
      if (isa > device::detect_isa()) continue;
      const auto got = Layer<float>(c, device::cpu_caps(isa).value()).run({kTokens});
      EXPECT_LT(error_of(got, want), 2e-3) << "case " << i << " on " << device::to_string(isa);
    }
  }
}

TEST(Stages, PiecesGiveTheBitsOfTheWhole) {
  for (std::size_t i = 0; i < cases().size(); ++i) {
    const device::DeviceCaps caps = device::cpu_caps(device::detect_isa()).value();
    const auto whole = Layer<float>(cases()[i], caps).run({kTokens});
    EXPECT_EQ(Layer<float>(cases()[i], caps).run({1, 1, 17, 3, 16, 1, 6}), whole) << "case " << i;
  }
}

// The comparison sees what a layer must not forget.
TEST(Stages, AMissingNormOrCapIsSeen) {
  LayerCase c = cases()[1];
  const std::vector<double> want = Layer<double>(c, device::reference_caps()).run({kTokens});
  c.cap = 0;
  EXPECT_GT(error_of(Layer<double>(c, device::reference_caps()).run({kTokens}), want), 2e-3);
  c = cases()[1];
  c.norm_before = false;
  EXPECT_GT(error_of(Layer<double>(c, device::reference_caps()).run({kTokens}), want), 2e-3);
}

}  // namespace
}  // namespace pagoda::kernels
