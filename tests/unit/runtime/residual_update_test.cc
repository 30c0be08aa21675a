// Sums that a product's slices of k leave: whoever comes next adds just these to the residual stream, once.
#include <gtest/gtest.h>

#include <optional>

#include "fixtures/paper_runner.h"
#include "kernels/embed/cuda_embed.h"
#include "kernels/linear/cuda_mma_bulk_rows.h"
#include "kernels/linear/cuda_wgmma_tiles.h"
#include "kernels/rms_norm/cuda_rms_norm.h"
#include "runtime/cuda_graphs.h"

namespace pagoda::runtime {
namespace {

using fixtures::PaperLaunch;
using fixtures::PaperRunner;

/// What a product left, if it left anything.
struct Owed {
  const void* slices;
  std::int64_t stride, rows;
  std::int32_t count;
  float scale;
};

template <class Params>
std::optional<Owed> owed_by(const PaperLaunch& node) {
  const auto p = node.as<Params>();
  if (p.splits <= 1) return std::nullopt;
  return Owed{p.weights[0].output, p.split_stride, static_cast<std::int64_t>(p.m), p.splits, p.scale};
}

std::optional<Owed> left_by(const PaperLaunch& node) {
  if (node.kernel == "wgmma_tiles") return owed_by<kernels::WgmmaTilesParams>(node);
  if (node.kernel == "mma_bulk_rows") return owed_by<kernels::MmaBulkRowsParams>(node);
  return std::nullopt;
}

// A kernel that may start while the one before it runs reads its weights before it waits: not if that one decodes them.
TEST(DecodedWeights, AreReadOnlyOnceTheyAreWritten) {
  fixtures::TinyConfig config = fixtures::paper_config();
  config.format = "q8_0";
  PaperRunner runner(config);
  ASSERT_TRUE(runner.make().ok());
  std::int64_t products = 0;
  for (const fixtures::PaperGraph& graph : runner.paper().graphs()) {
    std::string before;
    for (const PaperLaunch& node : graph.nodes) {
      if (node.kernel == "wgmma_tiles" && before == "unpack_codes") {
        EXPECT_FALSE(node.programmatic);
        ++products;
      }
      before = node.kernel;
    }
  }
  EXPECT_GT(products, 0);
}

// In every captured step: right behind a product that leaves slices comes the kernel that adds all of them, to the
// stream that the embedding began; and no other kernel adds anything.
TEST(ResidualUpdate, EverySliceIsAddedOnceByTheNextKernel) {
  fixtures::TinyConfig config = fixtures::paper_config();
  config.layers = 3;
  PaperRunner runner(config);
  ASSERT_TRUE(runner.make().ok());
  std::int64_t settled_by_norms = 0, settled_alone = 0;
  for (const fixtures::PaperGraph& graph : runner.paper().graphs()) {
    ASSERT_EQ(graph.nodes[0].kernel, "embed");
    const void* residual = graph.nodes[0].as<kernels::CudaEmbedParams>().output;
    std::optional<Owed> owed;
    for (const PaperLaunch& node : graph.nodes) {
      if (node.kernel != "rms_norm") {
        EXPECT_FALSE(owed.has_value()) << node.kernel << " comes before the slices are added";
        owed = left_by(node);
        continue;
      }
      const auto norm = node.as<kernels::CudaRmsNormParams>();
      EXPECT_EQ(norm.residual, residual);
      if (!owed) {
        EXPECT_EQ(norm.update, nullptr);
        continue;
      }
      EXPECT_EQ(norm.update, owed->slices);
      EXPECT_EQ(norm.slices, owed->count);
      EXPECT_EQ(norm.slice_stride, owed->stride);
      EXPECT_EQ(owed->stride, owed->rows * norm.hidden);
      EXPECT_EQ(norm.update_stride, norm.hidden);
      EXPECT_EQ(norm.scale, owed->scale);
      EXPECT_EQ(norm.rows, nullptr);
      EXPECT_EQ(static_cast<std::int64_t>(node.grid.x), owed->rows);
      ++(norm.output != nullptr ? settled_by_norms : settled_alone);
      owed.reset();
    }
    EXPECT_FALSE(owed.has_value());
  }
  EXPECT_GT(settled_by_norms, 0);
  EXPECT_GT(settled_alone, 0);  // behind the last layer
}

}  // namespace
}  // namespace pagoda::runtime
