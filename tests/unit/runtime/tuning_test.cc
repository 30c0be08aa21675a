// What start-up tuning takes, by scripted times; and on a GPU of paper, what it captures.
#include "runtime/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fixtures/paper_runner.h"

namespace pagoda::runtime {
namespace {

using fixtures::PaperGraph;
using fixtures::PaperRunner;
using testing::HasSubstr;
using testing::IsEmpty;
using Times = std::vector<std::vector<double>>;

TEST(PickVariant, TakesWhatIsFasterAndNowhereMuchSlower) {
  EXPECT_EQ(pick_variant(Times{{100, 200}, {90, 190}}), 1u);
  EXPECT_EQ(pick_variant(Times{{100, 200}, {99.9, 199.9}}), 0u) << "a gain within the noise";
  EXPECT_EQ(pick_variant(Times{{100, 200}, {103, 150}}), 1u) << "3 % slower in one bucket";
  EXPECT_EQ(pick_variant(Times{{100, 200}, {103.1, 150}}), 0u) << "more than 3 % slower in one bucket";
  EXPECT_EQ(pick_variant(Times{{100, 200}, {110, 220}}), 0u);
  EXPECT_EQ(pick_variant(Times{{100, 200}, {95, 190}, {80, 190}, {90, 190}}), 2u) << "the fastest of several";
  EXPECT_EQ(pick_variant(Times{{100, 200}, {50, 207}, {90, 190}}), 2u) << "the fastest of those that may be taken";
}

TEST(PickVariant, KeepsTheDefaultWithoutTimesToTrust) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(pick_variant({}), 0u);
  EXPECT_EQ(pick_variant(Times{{100, 200}}), 0u);
  EXPECT_EQ(pick_variant(Times{{}, {}}), 0u);
  EXPECT_EQ(pick_variant(Times{{100, 200}, {50}}), 0u) << "not measured whole";
  EXPECT_EQ(pick_variant(Times{{100, 200}, {kNan, 50}}), 0u);
  EXPECT_EQ(pick_variant(Times{{100, 200}, {0, 50}}), 0u);
  EXPECT_EQ(pick_variant(Times{{kNan, 200}, {50, 50}}), 0u);
}

// Each bucket is captured both ways: the same kernels on the same memory, launched otherwise.
TEST(Tuning, ComparesTheSameKernels) {
  model::PlanOptions options = PaperRunner::small_options();
  options.tune = true;
  PaperRunner runner(fixtures::paper_config(), options);
  const Status made = runner.make();
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::vector<PaperGraph> graphs = runner.paper().graphs();
  const std::size_t buckets = CudaGraphs::buckets(24).size();
  ASSERT_EQ(graphs.size(), 2 * buckets);
  for (std::size_t i = 0; i < buckets; ++i) {
    const auto &one = graphs[i].nodes, &other = graphs[buckets + i].nodes;
    ASSERT_EQ(one.size(), other.size());
    std::size_t programmatic = 0;
    for (std::size_t n = 0; n < one.size(); ++n) {
      EXPECT_EQ(one[n].kernel, other[n].kernel);
      EXPECT_EQ(one[n].unit, other[n].unit);
      EXPECT_EQ(one[n].grid.x, other[n].grid.x);
      EXPECT_EQ(runner.paper().addresses(one[n]), runner.paper().addresses(other[n]));
      EXPECT_FALSE(other[n].programmatic);
      programmatic += one[n].programmatic ? 1 : 0;
    }
    EXPECT_GT(programmatic, one.size() / 2);
  }
  EXPECT_THAT(runner->info().tuning, HasSubstr("launches"));
  EXPECT_THAT(runner.paper().faults(), IsEmpty());
  runner.close();
  EXPECT_THAT(runner.paper().leaks(), IsEmpty());
}

TEST(Tuning, IsOffUnlessAskedFor) {
  PaperRunner runner;
  ASSERT_TRUE(runner.make().ok());
  EXPECT_EQ(runner.paper().graphs().size(), CudaGraphs::buckets(24).size());
  EXPECT_EQ(runner->info().tuning, "");
}

}  // namespace
}  // namespace pagoda::runtime
