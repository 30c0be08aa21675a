// The host side of the int8 products: one launch that quantises the input, one over the row tiles of all weights.
#include "kernels/linear/cpu_gemm_int8.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/linear/int8_formats.h"
#include "kernels/linear/int8_gemm.h"
#include "kernels/linear/row_tiles.h"

namespace pagoda::kernels {
namespace {

using int8_rows16::Encoding;
using int8_rows16::kGroup;
using int8_rows16::kTileRows;

/// A unit: two row tiles, which a kernel unpacks together.
constexpr std::int64_t kUnitTiles = 2;

using FindProduct = int8_gemm::ProductKernel (*)(const Encoding& encoding, int terms);

int terms_of(Precision precision) { return precision == Precision::kStandard ? 1 : 2; }

void quantize(const int8_gemm::QuantizeParams& params, device::HostRange range) {
  int8_gemm::quantize_avx2(params, range.begin, range.end);
}

struct Params {
  std::array<int8_gemm::Product, kMaxLinearWeights> products;
  std::array<int8_gemm::ProductKernel, kMaxLinearWeights> kernels;
  std::array<std::int64_t, kMaxLinearWeights> units;
  int num_products = 0;
};

/// The range's part of each weight: units of the first weight come first.
void multiply(const Params& params, device::HostRange range) {
  std::int64_t first_unit = 0;
  for (int w = 0; w < params.num_products; ++w) {
    const std::int64_t begin = std::max<std::int64_t>(range.begin - first_unit, 0);
    const std::int64_t end = std::min(range.end - first_unit, params.units[w]);
    first_unit += params.units[w];
    if (begin >= end) continue;
    const std::int64_t tiles = ceil_div<std::int64_t>(params.products[w].n, kTileRows);
    params.kernels[w](params.products[w], begin * kUnitTiles, std::min(end * kUnitTiles, tiles));
  }
}

class Step final : public LinearStep {
 public:
  Step(std::span<const LinearWeight> weights, Precision precision, FindProduct find)
      : tiles_(weights, kUnitTiles * kTileRows), terms_(terms_of(precision)) {
    params_.num_products = tiles_.num_weights;
    for (int w = 0; w < tiles_.num_weights; ++w) {
      const LinearWeight& weight = weights[static_cast<std::size_t>(w)];
      const Encoding encoding = *find_int8_encoding(*weight.format);
      params_.kernels[w] = find(encoding, terms_);
      params_.units[w] = ceil_div(weight.shape.n, tiles_.tile_rows);
      params_.products[w].weight = reinterpret_cast<const std::uint8_t*>(weight.data);
      params_.products[w].bias = weight.bias;
      params_.products[w].n = weight.shape.n;
      // A row's last block may be used in part; it is stored whole.
      const std::int64_t stored = round_up(weight.shape.k, weight.format->block_elements) / kGroup;
      params_.products[w].groups = weight.shape.k / kGroup;
      params_.products[w].stored_groups = stored;
      params_.products[w].tile_bytes = int8_rows16::tile_bytes(encoding, stored);
      params_.products[w].group_log2 = encoding.group_log2;
    }
  }

  void launch(const LinearArgs& args, device::Stream& stream) const override {
    check_args(tiles_, args);
    const std::int64_t m = args.input.rows;
    if (m == 0) return;
    device::HostStream& host = device::host(stream);
    auto* activations = reinterpret_cast<std::uint8_t*>(args.scratch);
    host.launch(&quantize,
                int8_gemm::QuantizeParams{.input = args.input.row<float>(0),
                                          .stride = args.input.stride,
                                          .m = m,
                                          .groups = args.input.cols / kGroup,
                                          .terms = terms_,
                                          .activations = activations},
                int8_gemm::token_tiles(m, terms_), 4);
    Params params = params_;
    for (int w = 0; w < params.num_products; ++w) {
      params.products[w].activations = activations;
      params.products[w].m = m;
      params.products[w].out = args.outputs[w].row<float>(0);
      params.products[w].out_stride = args.outputs[w].stride;
    }
    const std::int64_t units = tiles_.units();
    host.launch(&multiply, params, units, grain_of(units, args.input.rows, host));
  }

 private:
  RowTiles tiles_;
  int terms_;
  Params params_;
};

Arithmetic arithmetic(Precision precision, const quant::Format&) {
  return {precision == Precision::kStandard ? "int8_g32" : "int16_g32"};
}

const Layout* layout(const quant::Format& format) {
  return kInt8Rows16Layout.supports(format) ? &kInt8Rows16Layout : nullptr;
}

std::size_t scratch_bytes(const LinearProblem& problem, const device::DeviceCaps&) {
  return static_cast<std::size_t>(problem.max_m * (problem.k / kGroup) *
                                  int8_gemm::token_bytes(terms_of(problem.precision)));
}

std::vector<CompileUnit> units(const LinearProblem&, const device::DeviceCaps&) { return {}; }

template <device::CpuIsa kIsa>
bool supports(const LinearProblem& problem, const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCpu && caps.isa >= kIsa && problem.activation == tensor::DType::kF32 &&
         problem.precision != Precision::kExact && problem.k % kGroup == 0 && layouts_match(problem, kInt8Avx2Linear);
}

template <FindProduct kFind>
Result<std::unique_ptr<LinearStep>> prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                            device::Device&) {
  check_weights(problem, weights, kInt8Avx2Linear);
  return std::unique_ptr<LinearStep>(std::make_unique<Step>(weights, problem.precision, kFind));
}

}  // namespace

const LinearKernel kInt8Avx512Linear = {.name = "cpu_gemm_int8_avx512",
                                        .arithmetic = arithmetic,
                                        .layout = layout,
                                        .supports = supports<device::CpuIsa::kAvx512>,
                                        .scratch_bytes = scratch_bytes,
                                        .units = units,
                                        .prepare = prepare<int8_gemm::product_avx512>};

const LinearKernel kInt8Avx2Linear = {.name = "cpu_gemm_int8_avx2",
                                      .arithmetic = arithmetic,
                                      .layout = layout,
                                      .supports = supports<device::CpuIsa::kAvx2>,
                                      .scratch_bytes = scratch_bytes,
                                      .units = units,
                                      .prepare = prepare<int8_gemm::product_avx2>};

}  // namespace pagoda::kernels
