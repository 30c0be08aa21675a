// y = W·x + b in float for any format: a tile of 8 rows is decoded, 1024 columns at a time, into 32 KiB of the
// worker's stack, and serves all tokens. Reads the file's own bytes, once each launch. Chosen where nothing faster
// supports the format.
//
// A chunk of 1024 columns, or of as many whole blocks as that has room for, is a dot product of its own (32 lanes,
// merged in halves); chunks are added in order.
#include "kernels/linear/cpu_generic.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/linear/row_tiles.h"
#include "quant/formats.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kTileRows = 8;
constexpr std::int64_t kChunk = 1024;
constexpr std::int64_t kLanes = 32;

/// Products are rounded, then added: without hardware a fused multiply-add is a library call.
void generic_dot(const float* weights, std::int64_t row_stride, std::int64_t num_rows, const float* x,
                 std::int64_t cols, float* out) {
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float* w = weights + row * row_stride;
    float sum[kLanes] = {};
    for (std::int64_t c = 0; c < cols; c += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) sum[lane] += w[c + lane] * x[c + lane];
    }
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
    }
    out[row] += sum[0];
  }
}

template <class... F>
constexpr bool fit_in_a_chunk(quant::FormatList<F...>) {
  return ((F::kBlockElements <= kChunk) && ...);
}
static_assert(fit_in_a_chunk(quant::Formats{}), "a chunk holds at least one block of each format");

/// Columns that are decoded together: whole blocks.
std::int64_t chunk_of(const quant::Format& format) { return kChunk / format.block_elements * format.block_elements; }

struct Params {
  RowTiles tiles;
  LinearArgs args;
  GenericDot dot;
};

/// Decodes columns [first, first + cols) of a tile's rows; up to kLanes − 1 zeros follow each row.
void decode_chunk(const LinearWeight& weight, const RowTiles::Tile& tile, std::int64_t first, std::int64_t cols,
                  float* panel) {
  const quant::Format& format = *weight.format;
  for (std::int64_t row = 0; row < tile.num_rows; ++row) {
    const std::byte* bytes =
        weight.data + (tile.first_row + row) * format.row_bytes(weight.shape.k) + format.row_bytes(first);
    format.decode_row(bytes, cols, panel + row * kChunk);
    std::fill(panel + row * kChunk + cols, panel + row * kChunk + round_up(cols, kLanes), 0.0f);
  }
}

void run_tile(const Params& params, const RowTiles::Tile& tile) {
  alignas(64) float panel[kTileRows * kChunk];
  alignas(64) float padded[kChunk];
  const LinearWeight& weight = params.tiles.weights[tile.weight];
  const tensor::MatrixView& output = params.args.outputs[tile.weight];
  const std::int64_t chunk = chunk_of(*weight.format);
  for (std::int64_t first = 0; first < weight.shape.k; first += chunk) {
    const std::int64_t cols = std::min(chunk, weight.shape.k - first);
    decode_chunk(weight, tile, first, cols, panel);
    for (std::int64_t token = 0; token < params.args.input.rows; ++token) {
      const float* x = params.args.input.row<float>(token) + first;
      if (weight.order != nullptr) {
        const float* whole = x - first;
        for (std::int64_t c = 0; c < cols; ++c) padded[c] = whole[weight.order[first + c]];
        std::fill(padded + cols, padded + round_up(cols, kLanes), 0.0f);
        x = padded;
      } else if (cols % kLanes != 0) {
        std::fill(std::copy(x, x + cols, padded), padded + round_up(cols, kLanes), 0.0f);
        x = padded;
      }
      float* out = output.row<float>(token) + tile.first_row;
      if (first == 0) std::fill(out, out + tile.num_rows, 0.0f);
      params.dot(panel, kChunk, tile.num_rows, x, round_up(cols, kLanes), out);
    }
  }
  if (weight.bias == nullptr) return;
  for (std::int64_t token = 0; token < params.args.input.rows; ++token) {
    float* out = output.row<float>(token) + tile.first_row;
    for (std::int64_t row = 0; row < tile.num_rows; ++row) out[row] += weight.bias[tile.first_row + row];
  }
}

void run(const Params& params, device::HostRange range) {
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) run_tile(params, params.tiles.tile(unit));
}

class Step final : public LinearStep {
 public:
  Step(std::span<const LinearWeight> weights, GenericDot dot) : tiles_(weights, kTileRows), dot_(dot) {}

  void launch(const LinearArgs& args, device::Stream& stream) const override {
    check_args(tiles_, args);
    device::HostStream& host = device::host(stream);
    const std::int64_t units = args.input.rows > 0 ? tiles_.units() : 0;
    host.launch(&run, Params{tiles_, args, dot_}, units, grain_of(units, args.input.rows, host));
  }

 private:
  RowTiles tiles_;
  GenericDot dot_;
};

Arithmetic portable_arithmetic(Precision, const quant::Format&) { return {"f32_chunk1024_lanes32"}; }
Arithmetic fused_arithmetic(Precision, const quant::Format&) { return {"f32_chunk1024_lanes32_fma"}; }

const Layout* layout(const quant::Format&) { return &kRowsLayout; }

std::size_t scratch_bytes(const LinearProblem&, const device::DeviceCaps&) { return 0; }

std::vector<CompileUnit> units(const LinearProblem&, const device::DeviceCaps&) { return {}; }

template <device::CpuIsa kIsa>
bool supports(const LinearProblem& problem, const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCpu && caps.isa >= kIsa && problem.activation == tensor::DType::kF32 &&
         problem.precision != Precision::kExact && layouts_match(problem, kGenericLinear);
}

template <GenericDot kDot>
Result<std::unique_ptr<LinearStep>> prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                            device::Device&) {
  check_weights(problem, weights, kGenericLinear);
  return std::unique_ptr<LinearStep>(std::make_unique<Step>(weights, kDot));
}

}  // namespace

const LinearKernel kGenericAvx512Linear = {.name = "cpu_generic_avx512",
                                           .arithmetic = fused_arithmetic,
                                           .layout = layout,
                                           .supports = supports<device::CpuIsa::kAvx512>,
                                           .scratch_bytes = scratch_bytes,
                                           .units = units,
                                           .prepare = prepare<generic_dot_avx512>};

const LinearKernel kGenericAvx2Linear = {.name = "cpu_generic_avx2",
                                         .arithmetic = fused_arithmetic,
                                         .layout = layout,
                                         .supports = supports<device::CpuIsa::kAvx2>,
                                         .scratch_bytes = scratch_bytes,
                                         .units = units,
                                         .prepare = prepare<generic_dot_avx2>};

const LinearKernel kGenericLinear = {.name = "cpu_generic",
                                     .arithmetic = portable_arithmetic,
                                     .layout = layout,
                                     .supports = supports<device::CpuIsa::kPortable>,
                                     .scratch_bytes = scratch_bytes,
                                     .units = units,
                                     .prepare = prepare<generic_dot>};

}  // namespace pagoda::kernels
