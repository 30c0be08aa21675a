// Products behind a norm in f16: every kernel between takes x for what the one before made of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fixtures/paper_runner.h"
#include "kernels/linear/cuda_mma_bulk_codes.h"
#include "kernels/linear/cuda_wgmma_tiles.h"
#include "kernels/qkv_postprocess/cuda_qkv_store.h"
#include "kernels/rms_norm/cuda_rms_norm.h"

namespace pagoda::runtime {
namespace {

using fixtures::PaperLaunch;
using fixtures::PaperRunner;

bool has(const PaperLaunch& node, const std::string& define) {
  return std::ranges::find(node.unit.defines, define) != node.unit.defines.end();
}

/// Of the captured steps of a model: what norms and products say of their x.
struct Seen {
  std::int64_t products = 0, norming = 0, others = 0, stores = 0;
  std::map<float, std::int64_t> factors;  // of norms or of products that norm themselves
};

Seen walk(PaperRunner& runner) {
  Seen seen;
  for (const fixtures::PaperGraph& graph : runner.paper().graphs()) {
    const void* normed = nullptr;
    float factor = 1;
    for (const PaperLaunch& node : graph.nodes) {
      if (node.kernel == "rms_norm") {
        const auto norm = node.as<kernels::CudaRmsNormParams>();
        normed = norm.output;
        factor = norm.output_factor;
        if (normed == nullptr) continue;
        EXPECT_TRUE(has(node, "OUTPUT=2"));
        ++seen.factors[factor];
      } else if (node.kernel == "mma_bulk_codes" || node.kernel == "whole_bulk_codes") {
        const auto p = node.as<kernels::MmaBulkCodesParams>();
        const bool norms = has(node, "NORM=1"), behind = norms || (normed != nullptr && p.input == normed);
        EXPECT_TRUE(has(node, behind ? "ELEMENT=1" : "ELEMENT=0"));
        ++(norms ? seen.norming : behind ? seen.products : seen.others);
        if (!behind) continue;
        EXPECT_EQ(p.output_factor * (norms ? p.input_factor : factor), 1.0f);
        if (norms) ++seen.factors[p.input_factor];
      } else if (node.kernel == "wgmma_tiles") {
        // Its x is behind a tensor map; of the residual's products, epilogue 2 or sums of slices, none is behind a
        // norm.
        const bool half = has(node, "ELEMENT=1"), gates = has(node, "EPILOGUE=3") || has(node, "EPILOGUE=4");
        EXPECT_FALSE(half && has(node, "EPILOGUE=2"));
        EXPECT_TRUE(half || !gates);
        if (half) {
          EXPECT_EQ(node.as<kernels::WgmmaTilesParams>().output_factor * factor, 1.0f);
        }
        ++(half ? seen.products : seen.others);
      } else if (node.kernel == "qkv_store") {
        EXPECT_TRUE(has(node, "INPUT_FLOAT=1"));
        ++seen.stores;
      }
    }
  }
  return seen;
}

TEST(F16Products, FollowNormsInF16) {
  for (const char* format : {"q4_1", "q8_0"}) {
    fixtures::TinyConfig config = fixtures::paper_config();
    config.format = format;
    PaperRunner runner(config);
    ASSERT_TRUE(runner.make().ok());
    const Seen seen = walk(runner);
    EXPECT_GT(seen.products, 0) << format;
    EXPECT_GT(seen.norming, 0) << format;
    EXPECT_GT(seen.others, 0) << format;  // down, and attention's own
    EXPECT_GT(seen.stores, 0) << format;
    EXPECT_THAT(seen.factors, testing::ElementsAre(testing::Pair(1.0f, testing::Gt(0)))) << format;
  }
}

// √160 times the weight 9,000 is beyond f16: half of it is not.
TEST(F16Products, AreScaledWhereANormsWeightsAreTooLarge) {
  fixtures::TinyConfig config = fixtures::paper_config();
  config.format = "q4_1";
  PaperRunner runner(config);
  ASSERT_TRUE(runner
                  .make([](model::Plan& plan) {
                    plan.layers[1].ffn_in.problem.norm.weight_shift = 9000;
                    plan.head.problem.norm.weight_shift = -36000;
                  })
                  .ok());
  const Seen seen = walk(runner);
  EXPECT_THAT(seen.factors,
              testing::ElementsAre(testing::Pair(0.125f, testing::Gt(0)), testing::Pair(0.5f, testing::Gt(0)),
                                   testing::Pair(1.0f, testing::Gt(0))));
}

}  // namespace
}  // namespace pagoda::runtime
