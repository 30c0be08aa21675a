// The stages between attention: what each writes, against the chain of references.
#include <algorithm>
#include <array>

#include "gpu/parity/parity.h"
#include "kernels/stages/attention_in.h"
#include "kernels/stages/ffn_in.h"
#include "kernels/stages/head.h"
#include "kernels/stages/sublayer_out.h"

namespace pagoda::parity {
namespace {

using kernels::KvLayout;
using kernels::KvOrder;
using kernels::QkvNorm;
using kernels::RopeKind;
using kernels::RopePairing;
using kernels::RopeSpec;
using tensor::DType;

constexpr std::int64_t kMostRows = 40;
constexpr std::int64_t kNumRows[] = {1, 2, 3, 9, 16, 17, 33};
constexpr double kEpsilon = 1e-5;

/// Runs the candidate that the plan would take, if it is one of CUDA's.
template <class Kernel, class Problem>
const Kernel& cuda_candidate(std::span<const Kernel> kernels, const Problem& problem, const device::DeviceCaps& caps) {
  const Kernel* kernel = kernels::choose(kernels, problem, caps);
  PAGODA_CHECK(kernel != nullptr && kernel->name == "cuda", "no candidate of CUDA takes a case");
  return *kernel;
}
template <class Kernel, class Problem>
const Kernel& reference_candidate(std::span<const Kernel> kernels, const Problem& problem) {
  const Kernel* kernel = kernels::choose(kernels, problem, device::reference_caps());
  PAGODA_CHECK(kernel != nullptr, "the reference takes not all");
  return *kernel;
}

/// A product's weights on both sides; layouts are those that a plan for the GPU would choose.
struct Weights {
  kernels::LinearProblem gpu, reference;
  std::vector<std::unique_ptr<WeightPair>> pairs;
};

kernels::LinearProblem planned(const std::vector<WeightCase>& weights, std::int64_t k, const device::DeviceCaps& caps) {
  kernels::LinearProblem problem = gpu_product(weights, k, kMostRows);
  PAGODA_CHECK(kernels::first_linear_kernel(problem, caps) != nullptr, "no candidate for a product");
  return problem;
}

Weights make_weights(const std::vector<WeightCase>& weights, std::int64_t k, unsigned seed) {
  Weights out;
  out.gpu = planned(weights, k, Gpu::get().caps());
  out.reference = reference_product(out.gpu);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    out.pairs.push_back(make_weight(weights[i], *out.gpu.weights[i].layout, k, seed + static_cast<unsigned>(i)));
  }
  return out;
}

std::vector<float> norm_weights(std::int64_t n, unsigned seed) {
  std::vector<float> weights = normal_floats(n, seed, 0.3);
  for (float& weight : weights) weight += 1;
  return weights;
}

// ---- attention_in -------------------------------------------------------------------------------------------------

struct InCase {
  std::int64_t hidden, heads, kv_heads, key_dim, value_dim, block_size;
  std::array<std::string, 3> formats;
  bool bias;
  QkvNorm norm;
  float shift;
  DType kv;
  RopeSpec rope;
};

RopeSpec rope(RopeKind kind, RopePairing pairing, std::int64_t head, std::int64_t rotary) {
  RopeSpec spec{.kind = kind, .pairing = pairing, .theta = 10000, .head_dim = head, .rotary_dim = rotary};
  spec.factor = 3;
  spec.original_context = 24;
  if (kind == RopeKind::kLongrope) {
    for (std::int64_t i = 0; i < rotary / 2; ++i) spec.pair_factors.push_back(1 + static_cast<double>(i) * 0.25);
    spec.attention_factor = 1.17;
  }
  return spec;
}

std::vector<InCase> in_cases() {
  const std::array<std::string, 3> bf16 = {"bf16", "bf16", "bf16"}, mixed = {"q4_k", "q6_k", "q8_0"};
  using enum RopeKind;
  constexpr auto kHalf = RopePairing::kHalfSplit;
  constexpr auto kNear = RopePairing::kInterleaved;
  return {
      {136, 3, 1, 64, 64, 16, bf16, false, QkvNorm::kNone, 0, DType::kBf16, rope(kDefault, kHalf, 64, 64)},
      {264, 6, 2, 64, 64, 8, bf16, true, QkvNorm::kNone, 0, DType::kBf16, rope(kLinear, kNear, 64, 64)},
      {136, 5, 1, 96, 80, 64, bf16, true, QkvNorm::kQueryKey, 0, DType::kBf16, rope(kYarn, kHalf, 96, 96)},
      {136, 4, 2, 128, 128, 256, bf16, false, QkvNorm::kQueryKey, 1, DType::kBf16, rope(kLlama3, kHalf, 128, 128)},
      {136, 2, 2, 256, 256, 16, bf16, false, QkvNorm::kQueryKey, 1, DType::kBf16, rope(kProportional, kHalf, 256, 64)},
      {136, 4, 2, 128, 128, 16, bf16, false, QkvNorm::kQueryKey, 0, DType::kFp8E4m3, rope(kLongrope, kHalf, 128, 48)},
      {136, 3, 3, 64, 64, 8, bf16, false, QkvNorm::kNone, 0, DType::kFp8E4m3, rope(kDefault, kNear, 64, 32)},
      {136, 7, 1, 64, 64, 16, bf16, false, QkvNorm::kAll, 0, DType::kBf16, rope(kNone, kHalf, 64, 64)},
      {512, 3, 1, 64, 64, 16, mixed, true, QkvNorm::kNone, 0, DType::kBf16, rope(kDefault, kNear, 64, 64)},
  };
}

kernels::AttentionInProblem in_problem(const InCase& c, const kernels::LinearProblem& product, bool exact) {
  const DType activation = exact ? DType::kF64 : DType::kBf16;
  kernels::AttentionInProblem problem;
  problem.norm = {.activation = activation, .hidden = c.hidden, .epsilon = kEpsilon, .weight_shift = c.shift};
  problem.product = product;
  problem.post = {.activation = activation,
                  .num_heads = c.heads,
                  .num_kv_heads = c.kv_heads,
                  .key_dim = c.key_dim,
                  .value_dim = c.value_dim,
                  .norm = c.norm,
                  .epsilon = kEpsilon,
                  .weight_shift = c.shift,
                  .rope = c.rope};
  problem.layout = {.dtype = exact ? DType::kF64 : c.kv,
                    .block_size = c.block_size,
                    .kv_heads = c.kv_heads,
                    .key_dim = c.key_dim,
                    .value_dim = c.value_dim,
                    .order = exact ? KvOrder::kLanes16 : KvOrder::kHeads};
  if (!exact && c.kv == DType::kFp8E4m3) {
    problem.layout.key_scale = 0.125f;
    problem.layout.value_scale = 0.0625f;
  }
  return problem;
}

std::vector<WeightCase> in_weights(const InCase& c) {
  return {{c.formats[0], c.heads * c.key_dim, c.bias},
          {c.formats[1], c.kv_heads * c.key_dim, c.bias},
          {c.formats[2], c.kv_heads * c.value_dim, false}};
}

/// attention_in of one case on both sides.
class AttentionIn {
 public:
  explicit AttentionIn(const InCase& c)
      : c_(c),
        weights_(make_weights(in_weights(c), c.hidden, 40)),
        problem_(in_problem(c, weights_.gpu, false)),
        exact_(in_problem(c, weights_.reference, true)),
        norm_(norm_weights(c.hidden, 1)),
        head_norm_(norm_weights(c.key_dim, 2)),
        table_(c.rope.kind == RopeKind::kNone ? nullptr : std::make_shared<kernels::RopeTable>(c.rope, kPositions)),
        gpu_norm_(Buffer::of(norm_)),
        gpu_head_norm_(Buffer::of(head_norm_)),
        gpu_rope_(table_ != nullptr ? Buffer::of(table_->rows()) : Buffer(16)) {
    Gpu& gpu = Gpu::get();
    const auto& kernel = cuda_candidate(kernels::attention_in_kernels(), problem_, gpu.caps());
    note_units(kernel.units(problem_, gpu.caps()));
    const auto* head = c.norm == QkvNorm::kNone ? nullptr : gpu_head_norm_.as<float>();
    const auto part = [&](std::size_t i) { return weights_.pairs[i]->gpu.weight; };
    step_ = kernel
                .prepare(
                    problem_,
                    {{gpu_norm_.as<float>()}, {part(0), part(1), part(2)}, {head, head, table_, gpu_rope_.as<float>()}},
                    gpu.device())
                .value();
    scratch_ = Buffer(static_cast<std::int64_t>(kernel.scratch_bytes(problem_, gpu.caps())));
    const auto& reference = reference_candidate(kernels::attention_in_kernels(), exact_);
    const auto* exact_head = c.norm == QkvNorm::kNone ? nullptr : head_norm_.data();
    const auto exact_part = [&](std::size_t i) { return weights_.pairs[i]->reference; };
    reference_ = reference
                     .prepare(exact_,
                              {{norm_.data()},
                               {exact_part(0), exact_part(1), exact_part(2)},
                               {exact_head, exact_head, table_, nullptr}},
                              gpu.reference())
                     .value();
    host_scratch_.resize(reference.scratch_bytes(exact_, gpu.reference().caps()) / 8 + 64);
    stride_ = round_up<std::int64_t>(problem_.layout.block_bytes(), 64) + 64;
    exact_stride_ = round_up<std::int64_t>(exact_.layout.block_bytes(), 64);
  }

  void run(std::int64_t m) {
    const std::int64_t hidden = c_.hidden;
    const std::vector<float> x = normal_floats(m * hidden, static_cast<unsigned>(m), 2);
    place(m);
    const std::vector<double> want = exact(x, m);
    Matrix residual(DType::kF32, m, hidden, hidden + 8);
    Matrix query(DType::kBf16, m, c_.heads * c_.key_dim);
    Buffer pages(num_pages_ * stride_);
    const Buffer positions = Buffer::of(positions_), slots = Buffer::of(slots_);
    const kernels::AttentionInArgs args{
        .residual = residual.view,
        .query = query.view,
        .step = {.num_tokens = m, .num_rows = 1, .positions = positions.as<std::int64_t>()},
        .group = {.write_slots = slots.as<std::int64_t>()},
        .pages = {.data = pages.data(), .block_stride = stride_, .num_blocks = num_pages_},
        .scratch = scratch_.data()};
    const auto reset = [&] {
      query.poison();
      pages.poison();
      scratch_.poison();
      residual.write(x);
    };
    const auto launch = [&](device::cuda::CudaStream& stream) { step_.launch(args, stream); };
    const std::string what = pagoda::format("hidden {} dims {} {} m {}", hidden, c_.key_dim, c_.value_dim, m);
    const auto error = [&](const std::vector<float>& got) { return worst(got, want, m); };
    run_every_way(reset, launch, [&](const std::string& way) {
      std::vector<float> got = gather(query, pages);
      expect_close("attention_in", what + " " + way, kBound, got, error);
      return got;
    });
    std::vector<float> changed = x;
    changed.back() += 64;
    reset();
    residual.write(changed);
    launch(Gpu::get().stream());
    EXPECT_GT(error(gather(query, pages)), kBound) << what << ": another input, and nothing is seen";
  }

 private:
  static constexpr std::int64_t kPositions = 600;
  static constexpr double kBound = 2e-2;       // three roundings to bf16, and pairs that turn into each other
  static constexpr double kFp8Bound = 7.5e-2;  // half a step of e4m3 is 1/16

  /// Positions of the tokens, and slots in pages in no order; every fourth token writes nothing.
  void place(std::int64_t m) {
    positions_.clear();
    slots_.clear();
    num_pages_ = ceil_div(m, c_.block_size) + 3;
    for (std::int64_t i = 0; i < m; ++i) {
      positions_.push_back((i * 37 + 11) % kPositions);
      const std::int64_t slot = (num_pages_ - 1 - i / c_.block_size) * c_.block_size + (i * 5 + 3) % c_.block_size;
      slots_.push_back(i % 4 == 3 ? -1 : slot);
    }
    // Slots of one page are all different: 5 and a power of two have no common divisor.
  }

  std::vector<double> exact(const std::vector<float>& x, std::int64_t m) {
    std::vector<double> in = doubles(x), query(static_cast<std::size_t>(m * c_.heads * c_.key_dim));
    std::vector<double> pages(static_cast<std::size_t>(num_pages_ * exact_stride_ / 8));
    reference_.launch({.residual = tensor::matrix(in.data(), m, c_.hidden),
                       .query = tensor::matrix(query.data(), m, c_.heads * c_.key_dim),
                       .step = {.num_tokens = m, .num_rows = 1, .positions = positions_.data()},
                       .group = {.write_slots = slots_.data()},
                       .pages = {.data = reinterpret_cast<std::byte*>(pages.data()), .block_stride = exact_stride_},
                       .scratch = reinterpret_cast<std::byte*>(host_scratch_.data())},
                      Gpu::get().host());
    std::vector<double> out = query;
    for_each_cached([&](std::int64_t slot, bool key, std::int64_t head, std::int64_t dim) {
      const KvLayout& layout = exact_.layout;
      const std::int64_t in_page = slot % c_.block_size;
      const std::int64_t at = key ? layout.key_offset(head, in_page, dim) : layout.value_offset(head, in_page, dim);
      out.push_back(pages[static_cast<std::size_t>(slot / c_.block_size * exact_stride_ / 8 + at)]);
    });
    return out;
  }

  /// Keys, then values of all slots that are written, head by head.
  template <class Visit>
  void for_each_cached(Visit&& visit) const {
    for (const bool key : {true, false}) {
      for (const std::int64_t slot : slots_) {
        for (std::int64_t head = 0; slot >= 0 && head < c_.kv_heads; ++head) {
          for (std::int64_t dim = 0; dim < (key ? c_.key_dim : c_.value_dim); ++dim) visit(slot, key, head, dim);
        }
      }
    }
  }

  /// Queries, keys, values; what no token owns is checked to be poison still.
  std::vector<float> gather(const Matrix& query, const Buffer& pages) const {
    std::vector<float> out = query.read();
    std::vector<std::byte> bytes = pages.read<std::byte>();
    const KvLayout& layout = problem_.layout;
    for_each_cached([&](std::int64_t slot, bool key, std::int64_t head, std::int64_t dim) {
      const std::int64_t in_page = slot % c_.block_size;
      const std::int64_t element =
          key ? layout.key_offset(head, in_page, dim) : layout.value_offset(head, in_page, dim);
      std::byte* const at = bytes.data() + slot / c_.block_size * stride_ + element * tensor::size_of(layout.dtype);
      if (layout.dtype == DType::kBf16) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, at, 2);
        out.push_back(bf16_to_float(bits));
        std::memset(at, 0xff, 2);
      } else {
        out.push_back(fp8_e4m3_to_float(static_cast<std::uint8_t>(*at)) *
                      (key ? layout.key_scale : layout.value_scale));
        *at = std::byte{0xff};
      }
    });
    const auto touched = std::ranges::count_if(bytes, [](std::byte b) { return b != std::byte{0xff}; });
    EXPECT_EQ(touched, 0) << "bytes of the pages that no token owns";
    return out;
  }

  /// Errors head by head. Those of an e4m3 cache are measured by its own bound.
  double worst(const std::vector<float>& got, const std::vector<double>& want, std::int64_t m) const {
    if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
    const auto queries = static_cast<std::ptrdiff_t>(m * c_.heads * c_.key_dim);
    const auto written = std::ranges::count_if(slots_, [](std::int64_t slot) { return slot >= 0; });
    const auto keys = queries + static_cast<std::ptrdiff_t>(written * c_.kv_heads * c_.key_dim);
    const auto part = [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::int64_t width) {
      return row_error({got.begin() + begin, got.begin() + end}, {want.begin() + begin, want.begin() + end}, width);
    };
    const double of_cache = std::max(part(queries, keys, c_.key_dim), part(keys, std::ssize(got), c_.value_dim));
    const double share = c_.kv == DType::kFp8E4m3 ? kBound / kFp8Bound : 1;
    return std::max(part(0, queries, c_.key_dim), of_cache * share);
  }

  InCase c_;
  Weights weights_;
  kernels::AttentionInProblem problem_, exact_;
  std::vector<float> norm_, head_norm_;
  std::shared_ptr<const kernels::RopeTable> table_;
  Buffer gpu_norm_, gpu_head_norm_, gpu_rope_, scratch_;
  kernels::AttentionInStep step_, reference_;
  std::vector<double> host_scratch_;
  std::int64_t stride_ = 0, exact_stride_ = 0, num_pages_ = 0;
  std::vector<std::int64_t> positions_, slots_;
};

TEST(AttentionInOnGpu, QueriesAndPagesAreNearTheReference) {
  for (const InCase& c : in_cases()) {
    AttentionIn stage(c);
    for (const std::int64_t m : kNumRows) stage.run(m);
  }
}

// ---- attention_out, ffn_out, ffn_in, head -------------------------------------------------------------------------

/// A stage of one input and one output, on both sides.
struct Plain {
  std::string name;
  double bound = 0;
  std::int64_t in_width = 0, out_width = 0, in_rows = 0;  ///< in_rows 0: as many as rows
  DType in = DType::kBf16, out = DType::kBf16;
  bool adds = false;  ///< the output is read and written: what counts is what was added
  std::function<void(const tensor::MatrixView& in, const tensor::MatrixView& out, std::int64_t m, std::byte* scratch,
                     device::cuda::CudaStream& stream)>
      launch = {};
  std::function<void(std::vector<double>& in, std::vector<double>& out, std::int64_t m)> exact = {};
  std::int64_t scratch_bytes = 0;
};

void run_plain(const Plain& stage, std::int64_t m) {
  const std::int64_t rows = stage.in_rows > 0 ? stage.in_rows : m;
  std::vector<float> x = normal_floats(rows * stage.in_width, static_cast<unsigned>(m + 7));
  if (stage.in == DType::kBf16) x = bf16_floats(x);
  const std::vector<float> before = normal_floats(m * stage.out_width, 91, 3);
  Matrix input(stage.in, rows, stage.in_width, stage.in_width + 8);
  Matrix output(stage.out, m, stage.out_width, round_up<std::int64_t>(stage.out_width, 8) + 8);
  Buffer scratch(stage.scratch_bytes);
  const auto exact_of = [&](const std::vector<float>& from) {
    std::vector<double> in = doubles(from);
    std::vector<double> out = stage.adds ? doubles(before) : std::vector<double>(before.size());
    stage.exact(in, out, m);
    for (std::size_t i = 0; stage.adds && i < out.size(); ++i) out[i] -= static_cast<double>(before[i]);
    return out;
  };
  const std::vector<double> want = exact_of(x);
  const auto error = [&](const std::vector<float>& got) { return row_error(got, want, stage.out_width); };
  const auto reset = [&] {
    output.poison();
    if (stage.adds) output.write(before);
    scratch.poison();
    input.write(x);
  };
  const auto launch = [&](device::cuda::CudaStream& stream) {
    stage.launch(input.view, output.view, m, scratch.data(), stream);
  };
  const auto result = [&] {
    std::vector<float> got = output.read();
    for (std::size_t i = 0; stage.adds && i < got.size(); ++i) got[i] -= before[i];
    return got;
  };
  const std::string what = pagoda::format("{} -> {} m {}", stage.in_width, stage.out_width, m);
  run_every_way(reset, launch, [&](const std::string& way) {
    std::vector<float> got = result();
    expect_close(stage.name, what + " " + way, stage.bound, got, error);
    return got;
  });
  std::vector<float> changed = x;
  changed[changed.size() / 2] += 64;
  for (std::size_t i = 0; i < changed.size(); i += static_cast<std::size_t>(stage.in_width)) changed[i] += 64;
  if (stage.in == DType::kBf16) changed = bf16_floats(changed);
  reset();
  input.write(changed);
  launch(Gpu::get().stream());
  EXPECT_GT(error(result()), stage.bound) << stage.name << ", " << what << ": another input, and nothing is seen";
}

struct OutCase {
  std::int64_t k, hidden;
  std::string format;
  bool norm;
  float scale, shift;
  bool attention;
  bool bias;
};

std::vector<OutCase> out_cases() {
  return {{320, 136, "bf16", false, 1, 0, true, false},   {1000, 268, "bf16", false, 0.7f, 0, false, true},
          {320, 136, "bf16", true, 0.7f, 1, true, false}, {4096, 136, "bf16", false, 1, 0, false, false},
          {512, 132, "q4_k", false, 0.7f, 0, true, true}, {288, 132, "q4_1", true, 1, 0, false, false}};
}

kernels::SublayerOutProblem out_problem(const OutCase& c, const kernels::LinearProblem& product, bool exact) {
  return {.product = product,
          .residual = {.activation = exact ? DType::kF64 : DType::kBf16,
                       .hidden = c.hidden,
                       .scale = c.scale,
                       .norm = c.norm,
                       .epsilon = kEpsilon,
                       .weight_shift = c.shift}};
}

void run_out(const OutCase& c, std::span<const kernels::SublayerOutKernel> kernels) {
  Gpu& gpu = Gpu::get();
  const Weights weights = make_weights({{c.format, c.hidden, c.bias}}, c.k, 60);
  const auto problem = out_problem(c, weights.gpu, false), exact = out_problem(c, weights.reference, true);
  const std::vector<float> norm = norm_weights(c.hidden, 3);
  const Buffer gpu_norm = Buffer::of(norm);
  const auto& kernel = cuda_candidate(kernels, problem, gpu.caps());
  note_units(kernel.units(problem, gpu.caps()));
  const auto step =
      kernel.prepare(problem, {weights.pairs[0]->gpu.weight, {gpu_norm.as<float>()}}, gpu.device()).value();
  const auto& reference = reference_candidate(kernels, exact);
  const auto exact_step =
      reference.prepare(exact, {weights.pairs[0]->reference, {norm.data()}}, gpu.reference()).value();
  std::vector<double> host_scratch(reference.scratch_bytes(exact, gpu.reference().caps()) / 8 + 64);
  Plain stage{.name = c.norm ? "sublayer_out with a norm" : "sublayer_out",
              .bound = 8e-3,
              .in_width = c.k,
              .out_width = c.hidden,
              .in = DType::kBf16,
              .out = DType::kF32,
              .adds = true};
  stage.scratch_bytes = static_cast<std::int64_t>(kernel.scratch_bytes(problem, gpu.caps()));
  stage.launch = [&](const tensor::MatrixView& in, const tensor::MatrixView& out, std::int64_t, std::byte* scratch,
                     device::cuda::CudaStream& stream) {
    step.launch({in, out, scratch}, stream);
  };
  stage.exact = [&](std::vector<double>& in, std::vector<double>& out, std::int64_t m) {
    exact_step.launch({tensor::matrix(in.data(), m, c.k), tensor::matrix(out.data(), m, c.hidden),
                       reinterpret_cast<std::byte*>(host_scratch.data())},
                      gpu.host());
  };
  for (const std::int64_t m : kNumRows) run_plain(stage, m);
}

TEST(SublayerOutOnGpu, WhatIsAddedIsNearTheReference) {
  for (const OutCase& c : out_cases()) {
    run_out(c, c.attention ? kernels::attention_out_kernels() : kernels::ffn_out_kernels());
  }
}

struct FfnCase {
  std::int64_t hidden, width;
  std::string gate, up;
  kernels::ActivationKind kind;
  float shift;
  bool bias;
};

std::vector<FfnCase> ffn_cases() {
  using enum kernels::ActivationKind;
  return {{136, 204, "bf16", "bf16", kSilu, 0, false},
          {264, 1004, "bf16", "bf16", kGeluTanh, 1, false},
          {512, 100, "q4_k", "q6_k", kSilu, 0, false},
          {288, 52, "q4_1", "q4_1", kGeluTanh, 1, false}};
}

kernels::FfnInProblem ffn_problem(const FfnCase& c, const kernels::LinearProblem& product, bool exact) {
  const DType activation = exact ? DType::kF64 : DType::kBf16;
  return {.has_norm = true,
          .norm = {.activation = activation, .hidden = c.hidden, .epsilon = kEpsilon, .weight_shift = c.shift},
          .product = product,
          .activation = {.activation = activation, .width = c.width, .kind = c.kind}};
}

std::vector<WeightCase> ffn_weights(const FfnCase& c) { return {{c.gate, c.width, c.bias}, {c.up, c.width, c.bias}}; }

TEST(FfnInOnGpu, IsNearTheReference) {
  Gpu& gpu = Gpu::get();
  for (const FfnCase& c : ffn_cases()) {
    const Weights weights = make_weights(ffn_weights(c), c.hidden, 70);
    const auto problem = ffn_problem(c, weights.gpu, false), exact = ffn_problem(c, weights.reference, true);
    const std::vector<float> norm = norm_weights(c.hidden, 4);
    const Buffer gpu_norm = Buffer::of(norm);
    const auto& kernel = cuda_candidate(kernels::ffn_in_kernels(), problem, gpu.caps());
    note_units(kernel.units(problem, gpu.caps()));
    const auto step =
        kernel
            .prepare(problem, {{gpu_norm.as<float>()}, {weights.pairs[0]->gpu.weight, weights.pairs[1]->gpu.weight}},
                     gpu.device())
            .value();
    const auto& reference = reference_candidate(kernels::ffn_in_kernels(), exact);
    const auto exact_step =
        reference
            .prepare(exact, {{norm.data()}, {weights.pairs[0]->reference, weights.pairs[1]->reference}},
                     gpu.reference())
            .value();
    std::vector<double> host_scratch(reference.scratch_bytes(exact, gpu.reference().caps()) / 8 + 64);
    Plain stage{.name = "ffn_in", .bound = 4e-2, .in_width = c.hidden, .out_width = c.width};
    stage.in = DType::kF32;
    stage.scratch_bytes = static_cast<std::int64_t>(kernel.scratch_bytes(problem, gpu.caps()));
    stage.launch = [&](const tensor::MatrixView& in, const tensor::MatrixView& out, std::int64_t, std::byte* scratch,
                       device::cuda::CudaStream& stream) {
      step.launch({in, out, scratch}, stream);
    };
    stage.exact = [&](std::vector<double>& in, std::vector<double>& out, std::int64_t m) {
      exact_step.launch({tensor::matrix(in.data(), m, c.hidden), tensor::matrix(out.data(), m, c.width),
                         reinterpret_cast<std::byte*>(host_scratch.data())},
                        gpu.host());
    };
    for (const std::int64_t m : kNumRows) run_plain(stage, m);
  }
}

struct HeadCase {
  std::int64_t hidden, vocab;
  std::string format;
  double softcap;
  float scale, shift;
};

std::vector<HeadCase> head_cases() {
  return {{136, 307, "bf16", 0, 1, 0},
          {264, 1013, "bf16", 1.5, 0.7f, 1},
          {288, 99, "q4_1", 0, 1.3f, 0},
          {512, 77, "q6_k", 2, 1, 0}};
}

kernels::HeadProblem head_problem(const HeadCase& c, const kernels::LinearProblem& product, bool exact) {
  return {.norm = {.activation = exact ? DType::kF64 : DType::kBf16,
                   .hidden = c.hidden,
                   .epsilon = kEpsilon,
                   .weight_shift = c.shift},
          .product = product,
          .softcap = c.softcap,
          .scale = c.scale};
}

TEST(HeadOnGpu, LogitsOfTheWantedRowsAreNearTheReference) {
  constexpr std::int64_t kTokens = 53;
  Gpu& gpu = Gpu::get();
  for (const HeadCase& c : head_cases()) {
    const Weights weights = make_weights({{c.format, c.vocab, false}}, c.hidden, 80);
    const auto problem = head_problem(c, weights.gpu, false), exact = head_problem(c, weights.reference, true);
    const std::vector<float> norm = norm_weights(c.hidden, 5);
    const Buffer gpu_norm = Buffer::of(norm);
    const auto& kernel = cuda_candidate(kernels::head_kernels(), problem, gpu.caps());
    note_units(kernel.units(problem, gpu.caps()));
    const auto step =
        kernel.prepare(problem, {{gpu_norm.as<float>()}, weights.pairs[0]->gpu.weight}, gpu.device()).value();
    const auto& reference = reference_candidate(kernels::head_kernels(), exact);
    const auto exact_step =
        reference.prepare(exact, {{norm.data()}, weights.pairs[0]->reference}, gpu.reference()).value();
    std::vector<double> host_scratch(reference.scratch_bytes(exact, gpu.reference().caps()) / 8 + 64);
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < kMostRows; ++i) wanted.push_back(i * 29 % kTokens);
    const Buffer gpu_wanted = Buffer::of(wanted);
    Matrix hidden(DType::kBf16, kMostRows, c.hidden);
    Plain stage{.name = "head", .bound = 1.5e-2, .in_width = c.hidden, .out_width = c.vocab, .in_rows = kTokens};
    stage.in = stage.out = DType::kF32;
    stage.scratch_bytes = static_cast<std::int64_t>(kernel.scratch_bytes(problem, gpu.caps()));
    stage.launch = [&](const tensor::MatrixView& in, const tensor::MatrixView& out, std::int64_t m, std::byte* scratch,
                       device::cuda::CudaStream& stream) {
      step.launch({.residual = in,
                   .wanted = gpu_wanted.as<std::int64_t>(),
                   .num_wanted = m,
                   .hidden = hidden.view,
                   .logits = out,
                   .scratch = scratch},
                  stream);
    };
    std::vector<double> exact_hidden(static_cast<std::size_t>(kMostRows * c.hidden));
    stage.exact = [&](std::vector<double>& in, std::vector<double>& out, std::int64_t m) {
      exact_step.launch({.residual = tensor::matrix(in.data(), kTokens, c.hidden),
                         .wanted = wanted.data(),
                         .num_wanted = m,
                         .hidden = tensor::matrix(exact_hidden.data(), m, c.hidden),
                         .logits = tensor::matrix(out.data(), m, c.vocab),
                         .scratch = reinterpret_cast<std::byte*>(host_scratch.data())},
                        gpu.host());
    };
    for (const std::int64_t m : kNumRows) run_plain(stage, m);
  }
}

template <class Kernel, class Problem>
void add_units(std::vector<CompileUnit>& to, std::span<const Kernel> kernels, const Problem& problem,
               const device::DeviceCaps& caps) {
  for (CompileUnit& unit : cuda_candidate(kernels, problem, caps).units(problem, caps)) to.push_back(std::move(unit));
}

}  // namespace

std::vector<CompileUnit> stage_units(const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const InCase& c : in_cases()) {
    const auto product = planned(in_weights(c), c.hidden, caps);
    add_units(units, kernels::attention_in_kernels(), in_problem(c, product, false), caps);
  }
  for (const OutCase& c : out_cases()) {
    const auto product = planned({{c.format, c.hidden, c.bias}}, c.k, caps);
    const auto kernels = c.attention ? kernels::attention_out_kernels() : kernels::ffn_out_kernels();
    add_units(units, kernels, out_problem(c, product, false), caps);
  }
  for (const FfnCase& c : ffn_cases()) {
    const auto product = planned(ffn_weights(c), c.hidden, caps);
    add_units(units, kernels::ffn_in_kernels(), ffn_problem(c, product, false), caps);
  }
  for (const HeadCase& c : head_cases()) {
    const auto product = planned({{c.format, c.vocab, false}}, c.hidden, caps);
    add_units(units, kernels::head_kernels(), head_problem(c, product, false), caps);
  }
  return units;
}

}  // namespace pagoda::parity
