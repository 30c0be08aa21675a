// attention_out, ffn_out, ffn_in and head, against the chains of their references; gather_rows.
#include <algorithm>

#include "gpu/parity/parity.h"
#include "gpu/parity/stage_cases.h"

namespace pagoda::parity {
namespace {

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

/// Of one launch, for what adds to nothing.
double error_once(const Plain& stage, std::int64_t m) {
  const std::int64_t rows = stage.in_rows > 0 ? stage.in_rows : m;
  const std::vector<float> x = normal_floats(rows * stage.in_width, static_cast<unsigned>(m + 7));
  Matrix input(stage.in, rows, stage.in_width), output(stage.out, m, stage.out_width);
  Buffer scratch(stage.scratch_bytes);
  input.write(x);
  stage.launch(input.view, output.view, m, scratch.data(), Gpu::get().stream());
  std::vector<double> in = doubles(x), want(static_cast<std::size_t>(m * stage.out_width));
  stage.exact(in, want, m);
  return row_error(output.read(), want, stage.out_width);
}

void run_out(const OutCase& c, std::span<const kernels::SublayerOutKernel> kernels) {
  Gpu& gpu = Gpu::get();
  const Weights weights = make_weights({{c.format, c.hidden, c.bias}}, c.k, c.most_rows, 60);
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
              .bound = c.format == "bf16" ? 8e-3 : 1.6e-2,  // many rows read others rounded to bf16
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
  for (const std::int64_t m : stage_rows(c.most_rows)) run_plain(stage, m);
}

TEST(SublayerOutOnGpu, WhatIsAddedIsNearTheReference) {
  for (const OutCase& c : out_cases()) {
    run_out(c, c.attention ? kernels::attention_out_kernels() : kernels::ffn_out_kernels());
  }
}

TEST(FfnInOnGpu, IsNearTheReference) {
  Gpu& gpu = Gpu::get();
  for (const FfnCase& c : ffn_cases()) {
    const Weights weights = make_weights(ffn_weights(c), c.hidden, c.most_rows, 70);
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
    for (const std::int64_t m : stage_rows(c.most_rows)) run_plain(stage, m);
  }
}

/// A stage that may leave its sum to the next one, and that one: together they are what they are apart.
void run_owed(std::int64_t m) {
  constexpr std::int64_t kWide = 4096, kHidden = 136, kFfn = 204;
  Gpu& gpu = Gpu::get();
  const Weights down = make_weights({{"bf16", kHidden, false}}, kWide, kMostStageRows, 60);
  const FfnCase next{kHidden, kFfn, "bf16", "bf16", kernels::ActivationKind::kSilu, 0, false};
  const Weights up = make_weights(ffn_weights(next), kHidden, kMostStageRows, 70);
  const auto out = out_problem({kWide, kHidden, "bf16", false, 0.7f, 0, true, false}, down.gpu, false);
  const auto in = ffn_problem(next, up.gpu, false);
  const Buffer norm = Buffer::of(norm_weights(kHidden, 4));
  const auto& out_kernel = cuda_candidate(kernels::attention_out_kernels(), out, gpu.caps());
  const auto& in_kernel = cuda_candidate(kernels::ffn_in_kernels(), in, gpu.caps());
  note_units(out_kernel.units(out, gpu.caps()));
  note_units(in_kernel.units(in, gpu.caps()));
  const auto out_step = out_kernel.prepare(out, {down.pairs[0]->gpu.weight, {}}, gpu.device()).value();
  const auto in_step =
      in_kernel.prepare(in, {{norm.as<float>()}, {up.pairs[0]->gpu.weight, up.pairs[1]->gpu.weight}}, gpu.device())
          .value();
  const auto bytes = std::max(out_kernel.scratch_bytes(out, gpu.caps()), in_kernel.scratch_bytes(in, gpu.caps()));
  Buffer scratch(static_cast<std::int64_t>(bytes));
  Buffer owed(static_cast<std::int64_t>(kernels::residual_update_bytes(out, gpu.caps())));
  Matrix input(DType::kBf16, m, kWide), residual(DType::kF32, m, kHidden), output(DType::kBf16, m, kFfn);
  input.write(bf16_floats(normal_floats(m * kWide, 8)));
  const std::vector<float> before = normal_floats(m * kHidden, 9, 3);
  const auto run = [&](bool may_owe) {
    kernels::ResidualUpdate update{.memory = owed.as<float>()};
    residual.write(before);
    output.poison();
    scratch.poison();
    owed.poison();
    out_step.launch({input.view, residual.view, scratch.data(), may_owe ? &update : nullptr}, gpu.stream());
    in_step.launch({residual.view, output.view, scratch.data(), may_owe ? &update : nullptr}, gpu.stream());
    std::vector<float> all = residual.read(), activated = output.read();
    all.insert(all.end(), activated.begin(), activated.end());
    return all;
  };
  const std::vector<float> apart = run(false), together = run(true);
  const auto rows = static_cast<std::ptrdiff_t>(m * kHidden);
  const auto error = [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::int64_t width) {
    return row_error({together.begin() + begin, together.begin() + end},
                     doubles({apart.begin() + begin, apart.begin() + end}), width);
  };
  EXPECT_LE(error(0, rows, kHidden), 1e-5) << "the residual at m " << m;
  EXPECT_LE(error(rows, std::ssize(apart), kFfn), 2e-2) << "the activations at m " << m;
}

TEST(SublayerOutOnGpu, WhatIsOwedIsSettledByTheNextStage) {
  for (const std::int64_t m : kStageRows) run_owed(m);
}

TEST(GatherRowsOnGpu, RowsAreTheInputsToTheBit) {
  constexpr std::int64_t kRows = 37;
  note_units(kernels::gather_rows_units(Gpu::get().caps()));
  const auto step = kernels::prepare_gather_rows(Gpu::get().device()).value();
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    // Less than a block's threads take in one turn, and more.
    for (const std::int64_t cols : {8, 328, 5000}) {
      Matrix input(dtype, kRows, cols, cols + 8), output(dtype, 5, cols, cols + 16);
      const std::vector<float> values = bf16_floats(normal_floats(kRows * cols, 7));
      const std::vector<std::int64_t> rows = {36, 0, 17, 18, 5};
      const Buffer gpu_rows = Buffer::of(rows);
      run_every_way(
          [&] {
            output.poison();
            input.write(values);
          },
          [&](device::cuda::CudaStream& stream) {
            step.launch({.input = input.view, .output = output.view, .rows = gpu_rows.as<std::int64_t>()}, stream);
          },
          [&](const std::string& way) {
            std::vector<float> got = output.read();
            for (std::size_t i = 0; i < rows.size(); ++i) {
              const auto row = values.begin() + rows[i] * cols;
              EXPECT_TRUE(std::equal(row, row + cols, got.begin() + static_cast<std::int64_t>(i) * cols))
                  << way << ", " << cols << " columns, row " << rows[i];
            }
            return got;
          });
    }
  }
}

/// The head of one case on both sides; `keep` holds what its launches read.
struct Head {
  static constexpr std::int64_t kTokens = 53;

  Head(const HeadCase& c, bool deterministic)
      : c_(c), weights_(make_weights({{c.format, c.vocab, false}}, c.hidden, kMostStageRows, 80)) {
    Gpu& gpu = Gpu::get();
    weights_.gpu.deterministic = deterministic;
    const auto problem = head_problem(c, weights_.gpu, false), exact = head_problem(c, weights_.reference, true);
    f16 = kernels::hidden_type(problem, gpu.caps()) == DType::kF16;
    norm_ = norm_weights(c.hidden, 5);
    gpu_norm_ = Buffer::of(norm_);
    const auto& kernel = cuda_candidate(kernels::head_kernels(), problem, gpu.caps());
    note_units(kernel.units(problem, gpu.caps()));
    step_ = kernel.prepare(problem, {{gpu_norm_.as<float>()}, weights_.pairs[0]->gpu.weight}, gpu.device()).value();
    const auto& reference = reference_candidate(kernels::head_kernels(), exact);
    exact_step_ = reference.prepare(exact, {{norm_.data()}, weights_.pairs[0]->reference}, gpu.reference()).value();
    host_scratch_.resize(reference.scratch_bytes(exact, gpu.reference().caps()) / 8 + 64);
    for (std::int64_t i = 0; i < kMostStageRows; ++i) wanted_.push_back(i * 29 % kTokens);
    gpu_wanted_ = Buffer::of(wanted_);
    exact_hidden_.resize(static_cast<std::size_t>(kMostStageRows * c.hidden));
    // f16 has three bits more, of x and, at many rows, of weights.
    stage = {.name = f16 ? "head in f16" : "head",
             .bound = f16 ? kF16Bound : 1.5e-2,
             .in_width = c.hidden,
             .out_width = c.vocab,
             .in_rows = kTokens,
             .in = DType::kF32,
             .out = DType::kF32};
    stage.scratch_bytes = static_cast<std::int64_t>(kernel.scratch_bytes(problem, gpu.caps()));
    stage.launch = [this](const tensor::MatrixView& in, const tensor::MatrixView& out, std::int64_t m,
                          std::byte* scratch, device::cuda::CudaStream& stream) {
      step_.launch({.residual = in,
                    .wanted = gpu_wanted_.as<std::int64_t>(),
                    .num_wanted = m,
                    .hidden = hidden_.view,
                    .logits = out,
                    .scratch = scratch},
                   stream);
    };
    stage.exact = [this](std::vector<double>& in, std::vector<double>& out, std::int64_t m) {
      exact_step_.launch({.residual = tensor::matrix(in.data(), kTokens, c_.hidden),
                          .wanted = wanted_.data(),
                          .num_wanted = m,
                          .hidden = tensor::matrix(exact_hidden_.data(), m, c_.hidden),
                          .logits = tensor::matrix(out.data(), m, c_.vocab),
                          .scratch = reinterpret_cast<std::byte*>(host_scratch_.data())},
                         Gpu::get().host());
    };
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// x and weights are rounded by 2.1e-4 each, root mean square; the worst of thousands is five times both together.
  /// bf16's are 1.6e-3 each.
  static constexpr double kF16Bound = 2.5e-3;
  Plain stage;
  bool f16 = false;

 private:
  HeadCase c_;
  Weights weights_;
  std::vector<float> norm_;
  std::vector<std::int64_t> wanted_;
  std::vector<double> exact_hidden_, host_scratch_;
  Buffer gpu_norm_, gpu_wanted_;
  Matrix hidden_{DType::kBf16, kMostStageRows, c_.hidden};
  kernels::HeadStep step_, exact_step_;
};

TEST(HeadOnGpu, LogitsOfTheWantedRowsAreNearTheReference) {
  for (const HeadCase& c : head_cases()) {
    const Head head(c, false);
    for (const std::int64_t m : kStageRows) run_plain(head.stage, m);
  }
}

// What bf16 makes of the same weights is beyond f16's bound, which therefore tells the two apart.
TEST(HeadOnGpu, CodesAreNearerInF16ThanInBf16) {
  if (Gpu::get().caps().gpu.compute() != 90) GTEST_SKIP() << "products in f16 are those of compute capability 9.0";
  for (const HeadCase& c : head_cases()) {
    const Head half(c, false), bf16(c, true);
    EXPECT_EQ(half.f16, c.format != "bf16" && c.format != "nvfp4") << c.format;
    EXPECT_FALSE(bf16.f16) << c.format;
    if (!half.f16) continue;
    for (const std::int64_t m : {1, 9, 33}) {
      EXPECT_LT(error_once(half.stage, m), Head::kF16Bound) << c.format << " m " << m;
      EXPECT_GT(error_once(bf16.stage, m), Head::kF16Bound) << c.format << " m " << m;
    }
  }
}

}  // namespace

}  // namespace pagoda::parity
