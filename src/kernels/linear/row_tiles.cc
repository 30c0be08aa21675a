#include "kernels/linear/row_tiles.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace pagoda::kernels {

RowTiles::RowTiles(std::span<const LinearWeight> from, std::int64_t rows_a_tile)
    : num_weights(static_cast<int>(from.size())), tile_rows(rows_a_tile) {
  std::copy(from.begin(), from.end(), weights.begin());
}

std::int64_t RowTiles::units() const {
  std::int64_t total = 0;
  for (int w = 0; w < num_weights; ++w) total += ceil_div(weights[w].shape.n, tile_rows);
  return total;
}

RowTiles::Tile RowTiles::tile(std::int64_t unit) const {
  int w = 0;
  for (; w + 1 < num_weights; ++w) {
    const std::int64_t tiles = ceil_div(weights[w].shape.n, tile_rows);
    if (unit < tiles) break;
    unit -= tiles;
  }
  const std::int64_t first = unit * tile_rows;
  return {w, first, std::min(tile_rows, weights[w].shape.n - first)};
}

void check_weights(const LinearProblem& problem, std::span<const LinearWeight> weights, const LinearKernel& kernel) {
  PAGODA_CHECK(static_cast<int>(weights.size()) == problem.num_weights && problem.num_weights >= 1 &&
                   problem.num_weights <= kMaxLinearWeights,
               "{} weights for a problem of {}", weights.size(), problem.num_weights);
  for (std::size_t w = 0; w < weights.size(); ++w) {
    const LinearWeightSpec& spec = problem.weights[w];
    const LinearWeight& weight = weights[w];
    PAGODA_CHECK(weight.format == spec.format && weight.layout == spec.layout && weight.shape.n == spec.n &&
                     weight.shape.k == problem.k && (weight.bias != nullptr) == spec.has_bias &&
                     (weight.order != nullptr) == spec.ordered,
                 "weight {} is not the one {} was chosen for", w, kernel.name);
    PAGODA_CHECK(weight.data != nullptr && reinterpret_cast<std::uintptr_t>(weight.data) % kLayoutAlignment == 0,
                 "weight {} is not aligned", w);
  }
}

void check_args(const RowTiles& tiles, const LinearArgs& args) {
  const std::int64_t m = args.input.rows;
  PAGODA_CHECK(args.input.cols == tiles.weights[0].shape.k, "{} columns for weights of {}", args.input.cols,
               tiles.weights[0].shape.k);
  for (int w = 0; w < tiles.num_weights; ++w) {
    const tensor::MatrixView& out = args.outputs[w];
    PAGODA_CHECK(out.rows == m && out.cols == tiles.weights[w].shape.n && out.dtype == args.input.dtype,
                 "output {} is {} x {} for {} x {}", w, out.rows, out.cols, m, tiles.weights[w].shape.n);
  }
}

bool layouts_match(const LinearProblem& problem, const LinearKernel& kernel) {
  if (problem.num_weights < 1 || problem.num_weights > kMaxLinearWeights || problem.k < 1) return false;
  return std::ranges::all_of(problem.specs(), [&](const LinearWeightSpec& spec) {
    const Layout* layout = kernel.layout(*spec.format);
    const bool columns_fit = !spec.ordered || layout == &kRowsLayout || layout == &kRowsF32Layout;
    return layout != nullptr && spec.layout == layout && spec.format->fits(problem.k) && columns_fit;
  });
}

std::int64_t grain_of(std::int64_t units, std::int64_t m, const device::HostStream& stream) {
  constexpr std::int64_t kStreaming = 8;
  if (m <= kStreaming) return std::max<std::int64_t>(1, ceil_div<std::int64_t>(units, stream.num_workers()));
  return std::max<std::int64_t>(1, units / (16 * stream.num_workers()));
}

}  // namespace pagoda::kernels
