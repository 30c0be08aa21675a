// Which device code has run on a GPU: the suite names the units that no receipt covers, and fails for one whose tests
// failed there and that is the same still.
#include "fixtures/gpu_receipt.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "api/known_kernels.h"
#include "gpu/parity/attention_cases.h"
#include "gpu/parity/linear_cases.h"
#include "gpu/parity/stage_cases.h"

namespace pagoda {
namespace {

using device::CompileUnit;
using fixtures::GpuReceipt;

/// What runs on an H200: the plans of configs/, and the cases of the parity tests.
std::vector<CompileUnit> h200_units() {
  const device::DeviceCaps caps = device::gpu_caps("h200").value();
  std::vector<CompileUnit> units = api::known_units(caps, {.device = "cuda"}, 1).value();
  for (const auto& cases : {parity::linear_units(caps), parity::stage_units(caps), parity::attention_units(caps)}) {
    units.insert(units.end(), cases.begin(), cases.end());
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

TEST(GpuReceipt, NamesTheUnitsThatNoneCovers) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/golden/gpu_receipt.tsv");
  ASSERT_TRUE(file);
  const GpuReceipt receipt = GpuReceipt::parse(file);
  EXPECT_TRUE(receipt.malformed.empty()) << receipt.malformed.front();
  const std::vector<CompileUnit> units = h200_units();
  EXPECT_GT(units.size(), 100u);
  std::size_t covered = 0;
  for (const CompileUnit& unit : units) {
    const std::string key = fixtures::unit_key(unit);
    EXPECT_FALSE(receipt.failed.contains(key)) << fixtures::unit_name(unit) << " failed on a GPU";
    covered += receipt.passed.contains(key) ? 1 : 0;
    if (!receipt.passed.contains(key)) std::printf("no receipt: %s\n", fixtures::unit_name(unit).c_str());
  }
  std::printf("%zu of %zu units for the H200 have a receipt\n", covered, units.size());
}

// A line of code that is no more says nothing of the code that is.
TEST(GpuReceipt, EveryLineIsOfTodaysCode) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/golden/gpu_receipt.tsv");
  const GpuReceipt receipt = GpuReceipt::parse(file);
  EXPECT_GT(receipt.lines.size(), 100u);
  for (const auto& [unit, key] : receipt.lines) {
    EXPECT_EQ(key, fixtures::unit_key(unit))
        << fixtures::unit_name(unit) << " has changed since it ran on a GPU: run tests/gpu again, or take its line out";
  }
}

TEST(GpuReceipt, ALineCountsForTheSameSourcesAndOptionsOnly) {
  CompileUnit unit{.source = "kernels/stages/cuda_softcap.cu", .defines = {"THREADS=256"}, .architecture = "sm_90"};
  const std::string key = fixtures::unit_key(unit);
  const std::string rest = "\tsm_90\tkernels/stages/cuda_softcap.cu\tTHREADS=256\tparity\t";
  std::istringstream lines("# hash\n" + key + rest + "passed\n");
  const GpuReceipt receipt = GpuReceipt::parse(lines);
  EXPECT_TRUE(receipt.malformed.empty());
  EXPECT_TRUE(receipt.passed.contains(key));
  unit.defines = {"THREADS=128"};
  EXPECT_FALSE(receipt.passed.contains(fixtures::unit_key(unit)));
  unit = {.source = "kernels/stages/cuda_softcap.cu", .defines = {"THREADS=256"}, .architecture = "sm_80"};
  EXPECT_FALSE(receipt.passed.contains(fixtures::unit_key(unit)));
}

TEST(GpuReceipt, OneFailureIsEnoughAndOtherLinesAreSeen) {
  const std::string key(64, 'a'), rest = "\tsm_90\ta.cu\tX=1\t";
  std::istringstream lines(key + rest + "parity\tfailed\n" + key + rest + "models\tpassed\nabc\n" + key + rest +
                           "parity\tperhaps\n");
  const GpuReceipt receipt = GpuReceipt::parse(lines);
  EXPECT_TRUE(receipt.failed.contains(key));
  EXPECT_FALSE(receipt.passed.contains(key));
  EXPECT_EQ(receipt.malformed.size(), 2u);
}

}  // namespace
}  // namespace pagoda
