// linear and embed: all formats in all layouts that the GPU reads, odd sizes, few and many rows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/parity/linear_cases.h"
#include "gpu/parity/parity.h"
#include "kernels/embed/embed.h"
#include "kernels/linear/cuda_linear.h"
#include "kernels/linear/reference.h"
#include "unit/kernels/linear_cases.h"

namespace pagoda::parity {
namespace {

using kernels::LinearKernel;
using kernels::LinearProblem;
using tensor::DType;

// Of a typical output: weights of many rows, and the output, are rounded to bf16; the worst of some ten thousand.
constexpr double kBound = 1.25e-2;

/// A product on both sides, for any number of rows.
class Product {
 public:
  Product(const LinearKernel& kernel, const LinearCase& c, const LinearProblem& problem)
      : kernel_(kernel), case_(c), problem_(problem), exact_(reference_product(problem)) {
    Gpu& gpu = Gpu::get();
    std::vector<kernels::LinearWeight> weights, references;
    for (std::size_t i = 0; i < c.weights.size(); ++i) {
      pairs_.push_back(make_weight(c.weights[i], *problem.weights[i].layout, c.k, static_cast<unsigned>(17 + i)));
      weights.push_back(pairs_.back()->gpu.weight);
      references.push_back(pairs_.back()->reference);
      width_ += c.weights[i].n;
    }
    step_ = kernel.prepare(problem_, weights, gpu.device()).value();
    reference_ = kernels::kReferenceLinear.prepare(exact_, references, gpu.reference()).value();
    scratch_ = Buffer(static_cast<std::int64_t>(kernel.scratch_bytes(problem_, gpu.caps())));
    const std::size_t bytes = kernels::kReferenceLinear.scratch_bytes(exact_, gpu.reference().caps());
    host_scratch_ = kernels::testing::AlignedBytes(bytes);
  }

  void run(std::int64_t m) {
    const std::vector<float> x = bf16_floats(
        kernels::testing::activations(m, case_.k, kernels::testing::Activations::kNormal, static_cast<unsigned>(m)));
    const bool rounds = kernel_.rounds_input != nullptr && kernel_.rounds_input(problem_, Gpu::get().caps());
    const std::vector<double> want = exact(rounds && m > 16 ? e4m3_rows(x, m) : x, m);
    Matrix input(DType::kBf16, m, case_.k, round_up<std::int64_t>(case_.k, 8) + 8);
    std::vector<Matrix> outputs;
    for (const WeightCase& weight : case_.weights) outputs.emplace_back(DType::kBf16, m, weight.n, weight.n + 1);
    kernels::LinearArgs args{.input = input.view, .outputs = {}, .scratch = scratch_.data()};
    for (std::size_t i = 0; i < outputs.size(); ++i) args.outputs[i] = outputs[i].view;
    const std::string what = case_.name() + " m" + std::to_string(m);
    const auto error = [&](const std::vector<float>& got) { return worst(got, want, x); };
    const auto reset = [&] {
      for (Matrix& output : outputs) output.poison();
      scratch_.poison();
      input.write(x);
    };
    const auto launch = [&](device::cuda::CudaStream& stream) { step_->launch(args, stream); };
    run_every_way(reset, launch, [&](const std::string& way) {
      std::vector<float> got = gather(outputs);
      expect_close("linear", what + " " + way, kBound, got, error);
      return got;
    });
    // One element of the input is another one: the comparison sees it.
    std::vector<float> changed = x;
    changed.back() += 64;
    reset();
    input.write(bf16_floats(changed));
    launch(Gpu::get().stream());
    EXPECT_GT(error(gather(outputs)), kBound) << what << ": another input, and nothing is seen";
  }

  /// A row that holds NaN gives NaN, and no other row is touched.
  void run_nan_row(std::int64_t m) {
    std::vector<float> x = bf16_floats(normal_floats(m * case_.k, 5));
    const std::vector<float> clean = outputs_of(x, m);
    x[static_cast<std::size_t>((m / 2) * case_.k + 3)] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> got = outputs_of(x, m);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool poisoned = static_cast<std::int64_t>(i) / width_ == m / 2;
      ASSERT_EQ(std::isnan(got[i]), poisoned) << case_.name() << " m" << m << " at " << i;
      if (poisoned) continue;
      ASSERT_EQ(got[i], clean[i]) << case_.name() << " m" << m << " at " << i;
    }
  }

  /// The first rows are the same bits whatever follows them.
  void run_row_rule() {
    const std::vector<float> x = bf16_floats(normal_floats(kMostLinearRows * case_.k, 6));
    const std::vector<float> all = outputs_of(x, kMostLinearRows);
    for (const std::int64_t m : kLinearRows) {
      const std::vector<float> some = outputs_of({x.begin(), x.begin() + m * case_.k}, m);
      EXPECT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << case_.name() << " m" << m;
    }
  }

 private:
  /// Of one launch.
  std::vector<float> outputs_of(const std::vector<float>& x, std::int64_t m) {
    Matrix input(DType::kBf16, m, case_.k);
    std::vector<Matrix> outputs;
    for (const WeightCase& weight : case_.weights) outputs.emplace_back(DType::kBf16, m, weight.n);
    kernels::LinearArgs args{.input = input.view, .outputs = {}, .scratch = scratch_.data()};
    for (std::size_t i = 0; i < outputs.size(); ++i) args.outputs[i] = outputs[i].view;
    input.write(x);
    step_->launch(args, Gpu::get().stream());
    return gather(outputs);
  }

  /// Rows as a product sees them that rounds its input: by what is nearest, of even code where two are.
  std::vector<float> e4m3_rows(const std::vector<float>& x, std::int64_t m) const {
    std::vector<float> out;
    for (std::int64_t row = 0; row < m; ++row) {
      const std::span<const float> own(x.data() + row * case_.k, static_cast<std::size_t>(case_.k));
      float most = 0;
      for (const float value : own) most = std::max(most, std::fabs(value));
      const float factor = most > 0 ? 448.0f / most : 1.0f, scale = most > 0 ? most / 448.0f : 1.0f;
      for (const float value : own) {
        const float wanted = std::fabs(value * factor);
        std::uint8_t best = 0;
        for (std::uint8_t code = 1; code < 0x7f; ++code) {
          const float now = std::fabs(fp8_e4m3_to_float(code) - wanted),
                      before = std::fabs(fp8_e4m3_to_float(best) - wanted);
          if (now < before || (now == before && code % 2 == 0)) best = code;
        }
        out.push_back(std::copysign(fp8_e4m3_to_float(best) * scale, value));
      }
    }
    return out;
  }

  std::vector<double> exact(const std::vector<float>& x, std::int64_t m) {
    std::vector<double> in = doubles(x);
    std::vector<double> out(static_cast<std::size_t>(m * width_));
    kernels::LinearArgs args{
        .input = tensor::matrix(in.data(), m, case_.k), .outputs = {}, .scratch = host_scratch_.data()};
    std::int64_t column = 0;
    for (std::size_t i = 0; i < case_.weights.size(); ++i) {
      args.outputs[i] = {out.data() + column, DType::kF64, m, case_.weights[i].n, width_};
      column += case_.weights[i].n;
    }
    reference_->launch(args, Gpu::get().host());
    return out;
  }

  /// Side by side, as the reference's.
  std::vector<float> gather(const std::vector<Matrix>& outputs) const {
    std::vector<std::vector<float>> parts;
    for (const Matrix& output : outputs) parts.push_back(output.read());
    std::vector<float> all;
    for (std::int64_t row = 0; row < outputs[0].view.rows; ++row) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto begin = parts[i].begin() + row * outputs[i].view.cols;
        all.insert(all.end(), begin, begin + outputs[i].view.cols);
      }
    }
    return all;
  }

  /// The largest error over the larger of |want| and ‖w‖·‖x‖ / √k, the size of a typical output.
  double worst(const std::vector<float>& got, const std::vector<double>& want, const std::vector<float>& x) const {
    if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
    std::vector<double> norms;
    for (const auto& pair : pairs_) norms.insert(norms.end(), pair->norms.begin(), pair->norms.end());
    double most = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / width_;
      double sum = 0;
      if (static_cast<std::int64_t>(i) % width_ == 0) {
        for (std::int64_t c = 0; c < case_.k; ++c) {
          const double value = static_cast<double>(x[static_cast<std::size_t>(row * case_.k + c)]);
          sum += value * value;
        }
        norm_ = std::sqrt(sum);
      }
      const double size = norms[static_cast<std::size_t>(static_cast<std::int64_t>(i) % width_)] * norm_ /
                          std::sqrt(static_cast<double>(case_.k));
      const double error = std::fabs(static_cast<double>(got[i]) - want[i]) / std::max(size, std::fabs(want[i]));
      if (!(error <= most)) most = std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
    }
    return most;
  }

  const LinearKernel& kernel_;
  LinearCase case_;
  LinearProblem problem_, exact_;
  std::vector<std::unique_ptr<WeightPair>> pairs_;
  std::int64_t width_ = 0;
  std::unique_ptr<kernels::LinearStep> step_, reference_;
  Buffer scratch_;
  kernels::testing::AlignedBytes host_scratch_;
  mutable double norm_ = 0;
};

class LinearOnGpu : public testing::TestWithParam<LinearCase> {};

TEST_P(LinearOnGpu, IsNearTheReference) {
  int ran = 0;
  for (const LinearKernel* kernel : linear_candidates()) {
    LinearProblem problem;
    if (!fit(*kernel, GetParam(), Gpu::get().caps(), problem)) continue;
    SCOPED_TRACE(kernel->name);
    note_units(linear_units_of(*kernel, problem, Gpu::get().caps()));
    Product product(*kernel, GetParam(), problem);
    for (const std::int64_t m : kLinearRows) product.run(m);
    for (const std::int64_t m : {3, 40}) product.run_nan_row(m);
    if (GetParam().deterministic) product.run_row_rule();
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

std::string case_name(const LinearCase& c) {
  std::string name = c.name();
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearOnGpu, testing::ValuesIn(linear_cases()),
                         [](const auto& each) { return case_name(each.param); });

// What the GPU packs is what the host packs, and what its candidates take their weights for.
TEST(PackOnGpu, GivesTheBytesOfTheHost) {
  for (const kernels::Layout* layout : {&kernels::kMma16Layout, &kernels::kMmaCodesLayout, &kernels::kRowsLayout}) {
    for (const quant::Format* format : quant::all_formats()) {
      if (!layout->supports(*format)) continue;
      const std::int64_t k = format->block_elements == 256 ? 768 : 288;
      const kernels::WeightShape shape{83, k};
      const auto rows = kernels::testing::random_rows(*format, shape, 9);
      note_units(kernels::pack_units(*format, *layout, Gpu::get().caps()));
      const GpuWeight gpu = gpu_weight(*format, *layout, shape, rows, {});
      std::vector<std::byte> want(layout->packed_bytes(*format, shape)), got(want);
      layout->pack(*format, shape, 0, shape.n, rows.data(), want.data());
      Gpu::get().download(got.data(), gpu.packed.data(), std::ssize(got));
      EXPECT_TRUE(got == want) << format->name << " as " << layout->name;
    }
  }
}

TEST(EmbedOnGpu, RowsAreTheReferencesToTheFloat) {
  constexpr std::int64_t kRows = 67, kScaleOfGemma = 640;
  for (const auto& [format, layout] : embed_cases()) {
    const std::int64_t k = format->block_elements == 1 ? 328 : format->block_elements == 32 ? 288 : 768;
    note_units(kernels::embed_units(*format, *layout, Gpu::get().caps()));
    const auto pair = make_weight({std::string(format->name), kRows, false}, *layout, k, 3);
    const auto step = kernels::prepare_embed(pair->gpu.weight, Gpu::get().device()).value();
    // An id of -1 - s is what slot s drew last.
    const std::vector<std::int32_t> ids{66, 0, -3, 17, 17, -1, 5}, last{41, 9, 23};
    const std::vector<std::int32_t> known{66, 0, 23, 17, 17, 41, 5};
    const Buffer gpu_ids = Buffer::of(ids), gpu_last = Buffer::of(last);
    Matrix output(DType::kF32, std::ssize(ids), k, k + 4);
    const auto scale = std::sqrt(static_cast<double>(kScaleOfGemma));
    std::vector<double> want(ids.size() * static_cast<std::size_t>(k));
    kernels::embed(pair->reference,
                   {.ids = known.data(), .output = tensor::matrix(want.data(), std::ssize(ids), k), .scale = scale},
                   Gpu::get().host());
    run_every_way([&] { output.poison(); },
                  [&](device::cuda::CudaStream& stream) {
                    step.launch({.ids = gpu_ids.as<std::int32_t>(),
                                 .output = output.view,
                                 .scale = scale,
                                 .last_ids = gpu_last.as<std::int32_t>()},
                                stream);
                  },
                  [&](const std::string& way) {
                    std::vector<float> got = output.read();
                    // Weights of more than 16 bits may be stored in bf16: none of the candidates does so.
                    expect_close("embed", std::string(format->name) + " " + way, 1e-6, got,
                                 [&](const std::vector<float>& each) { return row_error(each, want, k); });
                    return got;
                  });
  }
}

}  // namespace

}  // namespace pagoda::parity
