// What host candidates share: the weights of a launch, and how its units (tiles of rows, those of the first weight
// first) fall on them.
#pragma once

#include <array>

#include "kernels/linear/linear.h"

namespace pagoda::kernels {

struct RowTiles {
  std::array<LinearWeight, kMaxLinearWeights> weights;
  int num_weights = 0;
  std::int64_t tile_rows = 1;

  RowTiles() = default;
  RowTiles(std::span<const LinearWeight> from, std::int64_t rows_a_tile);

  std::int64_t units() const;

  struct Tile {
    int weight = 0;
    std::int64_t first_row = 0;
    std::int64_t num_rows = 0;
  };
  Tile tile(std::int64_t unit) const;
};

/// The checks every host candidate makes in `prepare`, and the cheap ones of a launch.
void check_weights(const LinearProblem& problem, std::span<const LinearWeight> weights, const LinearKernel& kernel);
void check_args(const RowTiles& tiles, const LinearArgs& args);

/// True if the layouts are those that `kernel` reads, each k fits its format, and the order of columns its layout.
bool layouts_match(const LinearProblem& problem, const LinearKernel& kernel);

/// Units a worker takes at a time. With few rows a launch waits for memory, and each worker reads one long stream. With
/// many, pieces are few enough that handing them out costs nothing, and enough that unequal workers end together.
std::int64_t grain_of(std::int64_t units, std::int64_t m, const device::HostStream& stream);

}  // namespace pagoda::kernels
