// What a step launches for tokens that nobody wants, on a GPU of paper: past the last layer's attention nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/paper_runner.h"
#include "fixtures/runner_driver.h"
#include "kernels/embed/cuda_embed.h"
#include "kernels/gather_rows/cuda_gather_rows.h"
#include "kernels/linear/cuda_mma_bulk_rows.h"
#include "kernels/linear/cuda_mma_tiles.h"
#include "kernels/linear/cuda_wgmma_tiles.h"
#include "kernels/rms_norm/cuda_rms_norm.h"

namespace pagoda::runtime {
namespace {

using fixtures::Feed;
using fixtures::PaperLaunch;
using fixtures::PaperRunner;
using fixtures::RunnerDriver;
using testing::ElementsAre;
using testing::IsEmpty;

/// Rows of a product's input.
std::optional<std::int64_t> product_rows(const PaperLaunch& launch) {
  if (launch.kernel == "mma_bulk_rows") return launch.as<kernels::MmaBulkRowsParams>().m;
  if (launch.kernel == "mma_tiles") return launch.as<kernels::MmaTilesParams>().m;
  if (launch.kernel == "wgmma_tiles") return launch.as<kernels::WgmmaTilesParams>().m;
  return std::nullopt;
}

/// The launches of one step, and the tokens that it gathers.
struct Launched {
  std::vector<PaperLaunch> all;
  std::vector<std::vector<std::int64_t>> gathered;

  std::int64_t count(std::string_view kernel) const {
    return std::ranges::count(all, kernel, [](const PaperLaunch& launch) -> std::string_view { return launch.kernel; });
  }
};

class WantedRows : public testing::TestWithParam<bool> {
 protected:
  WantedRows() : runner_(fixtures::paper_config(), options()) {
    EXPECT_TRUE(runner_.make().ok());
    driver_.emplace(*runner_);
    for (std::int32_t slot = 0; slot < 6; ++slot) driver_->start(slot, fixtures::some_ids(70, 67, 3));
  }

  static model::PlanOptions options() {
    model::PlanOptions options = PaperRunner::small_options();
    options.deterministic = GetParam();
    return options;
  }

  Launched step(const std::vector<Feed>& feeds) {
    Launched launched;
    runner_.paper().run();
    runner_.paper().forget();
    runner_.paper().on_launch = [&](const PaperLaunch& launch) {
      if (launch.kernel != "gather_rows") return;
      const auto params = launch.as<kernels::CudaGatherRowsParams>();
      launched.gathered.emplace_back(params.rows, params.rows + launch.grid.x);
    };
    driver_->step(feeds);
    runner_.paper().run();
    runner_.paper().on_launch = {};
    launched.all = runner_.paper().launches();
    EXPECT_THAT(runner_.paper().faults(), IsEmpty());
    return launched;
  }

  /// After what is gathered all kernels have so many rows, and norms have the gathered stream.
  static void expect_narrow(const Launched& launched, std::int64_t rows) {
    const auto* const residual = launched.all.at(0).kernel == "embed"
                                     ? launched.all[0].as<kernels::CudaEmbedParams>().output
                                     : launched.all.at(1).as<kernels::CudaEmbedParams>().output;
    const void *stream = nullptr, *output = nullptr;
    std::int64_t products = 0, norms = 0;
    for (const PaperLaunch& launch : launched.all) {
      if (launch.kernel == "gather_rows") {
        const auto params = launch.as<kernels::CudaGatherRowsParams>();
        EXPECT_EQ(launch.grid.x, rows);
        EXPECT_NE(params.input, params.output);
        if (stream == nullptr) {
          EXPECT_EQ(params.input, residual) << "first the residual stream";
          stream = params.output;
        } else {
          output = params.output;
        }
        continue;
      }
      if (output == nullptr) continue;
      if (const auto m = product_rows(launch)) {
        EXPECT_EQ(*m, rows) << launch.kernel;
        ++products;
      } else if (launch.kernel == "rms_norm") {
        EXPECT_EQ(launch.as<kernels::CudaRmsNormParams>().residual, stream);
        EXPECT_EQ(launch.grid.x, rows);
        ++norms;
      }
    }
    EXPECT_EQ(products, 4) << "of attention, gate and up, down, and the head";
    EXPECT_GE(norms, 1);
  }

  PaperRunner runner_;
  std::optional<RunnerDriver> driver_;
};

TEST_P(WantedRows, AChunkThatWantsNothingEndsAtItsLastKeys) {
  const Launched launched = step({{.slot = 0, .count = 50}, {.slot = 1, .count = 20}});
  EXPECT_THAT(launched.gathered, IsEmpty());
  EXPECT_EQ(launched.count("qkv_store"), 2);
  EXPECT_EQ(launched.count("prefill_sm90") + launched.count("prefill"), 1) << "that of the first layer of two";
  EXPECT_EQ(launched.all.back().kernel, "qkv_store");
}

TEST_P(WantedRows, APromptsEndIsOneRow) {
  step({{.slot = 0, .count = 50}});
  const Launched launched = step({{.slot = 0, .count = 20, .wants_id = true}});
  EXPECT_THAT(launched.gathered, ElementsAre(ElementsAre(19), ElementsAre(19)));
  EXPECT_EQ(launched.count("prefill_sm90") + launched.count("prefill"), 2);
  expect_narrow(launched, 1);
}

TEST_P(WantedRows, DecodesBesideAChunkAreRowsOfTheirOwn) {
  for (const std::int32_t slot : {0, 1, 2}) step({{.slot = slot, .count = 70, .wants_id = true}});
  const std::vector<Feed> decodes = {{.slot = 2, .wants_id = true}, {.slot = 0, .wants_id = true}};
  const auto with = [&](std::initializer_list<Feed> more) {
    std::vector<Feed> feeds = decodes;
    feeds.insert(feeds.end(), more);
    return step(feeds);
  };
  Launched launched = with({{.slot = 3, .count = 40}});
  EXPECT_THAT(launched.gathered, ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
  expect_narrow(launched, 2);
  launched = with({{.slot = 4, .count = 10, .want = sched::Want::kLogits, .want_from = 7},
                   {.slot = 3, .count = 30, .wants_id = true}});
  EXPECT_THAT(launched.gathered, ElementsAre(ElementsAre(0, 1, 9, 10, 11, 41), ElementsAre(0, 1, 9, 10, 11, 41)));
  expect_narrow(launched, 6);
}

TEST_P(WantedRows, StepsThatGatherNothing) {
  EXPECT_THAT(step({{.slot = 0, .count = 20, .want = sched::Want::kLogits}}).gathered, IsEmpty()) << "all are wanted";
  EXPECT_THAT(step({{.slot = 0, .count = 40, .want = sched::Want::kLogits, .want_from = 15}}).gathered, IsEmpty())
      << "more are wanted than sequences run";
  const Launched decode = step({{.slot = 1}, {.slot = 0, .wants_id = true}});
  EXPECT_THAT(decode.gathered, IsEmpty()) << "a step of single tokens is that of the captured ones";
  EXPECT_EQ(decode.count("decode") + decode.count("prefill"), 2);
}

INSTANTIATE_TEST_SUITE_P(Deterministic, WantedRows, testing::Bool());

}  // namespace
}  // namespace pagoda::runtime
