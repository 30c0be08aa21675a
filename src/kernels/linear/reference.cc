// The truth: y = W·x + b in double, over weights decoded exactly to float once.
//
// A dot product runs in eight chains (column c goes to chain c mod 8), merged pairwise; products are rounded, then
// added. Each output row's weights are read once from memory and serve all tokens.
#include "kernels/linear/reference.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/linear/row_tiles.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kTileRows = 8;
constexpr int kChains = 8;

template <class Input>
double dot(const float* w, Input x, std::int64_t k) {
  double sum[kChains] = {};
  std::int64_t c = 0;
  for (; c + kChains <= k; c += kChains) {
    for (int i = 0; i < kChains; ++i) sum[i] += static_cast<double>(w[c + i]) * x(c + i);
  }
  for (int i = 0; c + i < k; ++i) sum[i] += static_cast<double>(w[c + i]) * x(c + i);
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

struct Params {
  RowTiles tiles;
  LinearArgs args;
};

void run(const Params& params, device::HostRange range) {
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
    const RowTiles::Tile tile = params.tiles.tile(unit);
    const LinearWeight& weight = params.tiles.weights[tile.weight];
    const std::int64_t k = weight.shape.k;
    const float* rows = reinterpret_cast<const float*>(weight.data) + tile.first_row * k;
    for (std::int64_t token = 0; token < params.args.input.rows; ++token) {
      const double* x = params.args.input.row<double>(token);
      double* out = params.args.outputs[tile.weight].row<double>(token) + tile.first_row;
      for (std::int64_t row = 0; row < tile.num_rows; ++row) {
        const double bias = weight.bias != nullptr ? static_cast<double>(weight.bias[tile.first_row + row]) : 0.0;
        const float* w = rows + row * k;
        const double product = weight.order == nullptr
                                   ? dot(
                                         w, [x](std::int64_t c) { return x[c]; }, k)
                                   : dot(
                                         w, [x, order = weight.order](std::int64_t c) { return x[order[c]]; }, k);
        out[row] = product + bias;
      }
    }
  }
}

class Step final : public LinearStep {
 public:
  explicit Step(std::span<const LinearWeight> weights) : tiles_(weights, kTileRows) {}

  void launch(const LinearArgs& args, device::Stream& stream) const override {
    check_args(tiles_, args);
    device::HostStream& host = device::host(stream);
    const std::int64_t units = args.input.rows > 0 ? tiles_.units() : 0;
    host.launch(&run, Params{tiles_, args}, units, grain_of(units, args.input.rows, host));
  }

 private:
  RowTiles tiles_;
};

Arithmetic arithmetic(Precision, const quant::Format&) { return {"double_8_chains"}; }

const Layout* layout(const quant::Format&) { return &kRowsF32Layout; }

bool supports(const LinearProblem& problem, const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kReference && problem.activation == tensor::DType::kF64 &&
         layouts_match(problem, kReferenceLinear);
}

std::size_t scratch_bytes(const LinearProblem&, const device::DeviceCaps&) { return 0; }

std::vector<CompileUnit> units(const LinearProblem&, const device::DeviceCaps&) { return {}; }

Result<std::unique_ptr<LinearStep>> prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                            device::Device&) {
  check_weights(problem, weights, kReferenceLinear);
  return std::unique_ptr<LinearStep>(std::make_unique<Step>(weights));
}

}  // namespace

const LinearKernel kReferenceLinear = {.name = "reference",
                                       .arithmetic = arithmetic,
                                       .layout = layout,
                                       .supports = supports,
                                       .scratch_bytes = scratch_bytes,
                                       .units = units,
                                       .prepare = prepare};

}  // namespace pagoda::kernels
