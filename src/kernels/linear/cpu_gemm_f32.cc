// The host side of the float products: one launch over the row tiles of all weights.
#include "kernels/linear/cpu_gemm_f32.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/linear/float_gemm.h"
#include "kernels/linear/fp8_rows16.h"
#include "kernels/linear/row_tiles.h"

namespace pagoda::kernels {
namespace {

using float_gemm::Element;

using float_gemm::Kind;

using FindProduct = float_gemm::ProductKernel (*)(Kind kind);

struct Params {
  std::array<float_gemm::Product, kMaxLinearWeights> products;
  std::array<float_gemm::ProductKernel, kMaxLinearWeights> kernels;
  std::array<std::int64_t, kMaxLinearWeights> units;
  int num_products = 0;
};

/// The range's part of each weight: units (row tiles) of the first weight come first.
void multiply(const Params& params, device::HostRange range) {
  std::int64_t first_unit = 0;
  for (int w = 0; w < params.num_products; ++w) {
    const std::int64_t begin = std::max<std::int64_t>(range.begin - first_unit, 0);
    const std::int64_t end = std::min(range.end - first_unit, params.units[w]);
    first_unit += params.units[w];
    if (begin < end) params.kernels[w](params.products[w], begin, end);
  }
}

void scale_up(const float_gemm::ScaleUpParams& params, device::HostRange range) {
  float_gemm::scale_up_avx2(params, range.begin, range.end);
}

Kind kind_of(const quant::Format& format) {
  if (kFp8Rows16Layout.supports(format)) return fp8_kind(format);
  return {format.name == "f32" ? Element::kF32 : format.name == "f16" ? Element::kF16 : Element::kBf16};
}

class Step final : public LinearStep {
 public:
  Step(std::span<const LinearWeight> weights, FindProduct find) : tiles_(weights, float_gemm::kTileRows) {
    params_.num_products = tiles_.num_weights;
    for (int w = 0; w < tiles_.num_weights; ++w) {
      const LinearWeight& weight = weights[static_cast<std::size_t>(w)];
      params_.kernels[w] = find(kind_of(*weight.format));
      params_.units[w] = (weight.shape.n + float_gemm::kTileRows - 1) / float_gemm::kTileRows;
      params_.products[w] = {.weight = reinterpret_cast<const std::uint8_t*>(weight.data),
                             .bias = weight.bias,
                             .n = weight.shape.n,
                             .k = weight.shape.k};
      if (weight.layout != &kFp8Rows16Layout) continue;
      codes_ = true;
      params_.products[w].block = weight.format->block_elements;
      params_.products[w].tile_bytes = fp8_tile_bytes(*weight.format, weight.shape.k);
    }
  }

  void launch(const LinearArgs& args, device::Stream& stream) const override {
    check_args(tiles_, args);
    if (args.input.rows == 0) return;
    device::HostStream& host = device::host(stream);
    const std::int64_t m = args.input.rows;
    const std::int64_t k = args.input.cols;
    auto* scaled = reinterpret_cast<float*>(args.scratch);
    if (codes_) {
      host.launch(&scale_up,
                  float_gemm::ScaleUpParams{.input = args.input.row<float>(0),
                                            .stride = args.input.stride,
                                            .k = k,
                                            .scaled = scaled,
                                            .unscale = scaled + m * k},
                  m, 8);
    }
    Params params = params_;
    for (int w = 0; w < params.num_products; ++w) {
      const bool codes = params.products[w].block > 0;
      params.products[w].m = m;
      params.products[w].input = codes ? scaled : args.input.row<float>(0);
      params.products[w].input_stride = codes ? k : args.input.stride;
      params.products[w].unscale = scaled + m * k;
      params.products[w].out = args.outputs[w].row<float>(0);
      params.products[w].out_stride = args.outputs[w].stride;
    }
    const std::int64_t units = tiles_.units();
    host.launch(&multiply, params, units, grain_of(units, args.input.rows, host));
  }

 private:
  RowTiles tiles_;
  Params params_;
  bool codes_ = false;  // of 8-bit floats, in any weight
};

Arithmetic arithmetic(Precision, const quant::Format& format) {
  return {kFp8Rows16Layout.supports(format) ? "f32_4_chains_scaled" : "f32_4_chains_fma"};
}

const Layout* layout(const quant::Format& format) {
  if (kFp8Rows16Layout.supports(format)) return &kFp8Rows16Layout;
  return kFloatRows16Layout.supports(format) ? &kFloatRows16Layout : nullptr;
}

std::size_t scratch_bytes(const LinearProblem& problem, const device::DeviceCaps&) {
  const bool codes =
      std::ranges::any_of(problem.specs(), [](const auto& spec) { return spec.layout == &kFp8Rows16Layout; });
  return codes ? static_cast<std::size_t>(problem.max_m * (problem.k + 1)) * sizeof(float) : 0;
}

std::vector<CompileUnit> units(const LinearProblem&, const device::DeviceCaps&) { return {}; }

template <device::CpuIsa kIsa>
bool supports(const LinearProblem& problem, const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCpu && caps.isa >= kIsa && problem.activation == tensor::DType::kF32 &&
         problem.precision != Precision::kExact && layouts_match(problem, kFloatAvx2Linear);
}

template <FindProduct kFind>
Result<std::unique_ptr<LinearStep>> prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                            device::Device&) {
  check_weights(problem, weights, kFloatAvx2Linear);
  return std::unique_ptr<LinearStep>(std::make_unique<Step>(weights, kFind));
}

}  // namespace

const LinearKernel kFloatAvx512Linear = {.name = "cpu_gemm_f32_avx512",
                                         .arithmetic = arithmetic,
                                         .layout = layout,
                                         .supports = supports<device::CpuIsa::kAvx512>,
                                         .scratch_bytes = scratch_bytes,
                                         .units = units,
                                         .prepare = prepare<float_gemm::product_avx512>};

const LinearKernel kFloatAvx2Linear = {.name = "cpu_gemm_f32_avx2",
                                       .arithmetic = arithmetic,
                                       .layout = layout,
                                       .supports = supports<device::CpuIsa::kAvx2>,
                                       .scratch_bytes = scratch_bytes,
                                       .units = units,
                                       .prepare = prepare<float_gemm::product_avx2>};

}  // namespace pagoda::kernels
