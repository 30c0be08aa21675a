#include "kv/write_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kv/fault.h"

namespace pagoda::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const GroupConfig kGroup{.name = "full", .block_size = 2, .block_count = 9};

KvWritePlan plan_of(const BlockTable& table, std::int64_t offset, std::int64_t count, std::int32_t group = 0) {
  return KvWritePlan::make(group, table, offset, count).value();
}

void expect_fault(const Status& status, Fault fault, const std::string& values) {
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, StartsWith(std::string(to_string(fault)) + ": "));
  EXPECT_THAT(status.error().message, HasSubstr(values));
}

// Plans written out by hand.
TEST(WritePlanTest, ReferenceVectors) {
  const BlockTable table(2, {7, 8}, 4);
  const KvWritePlan plan = plan_of(table, 1, 3, 5);
  const KvWrite a{
      .group = 5, .block = 7, .table_index = 0, .local_start = 0, .local_end = 1, .page_start = 1, .page_end = 2};
  const KvWrite b{
      .group = 5, .block = 8, .table_index = 1, .local_start = 1, .local_end = 3, .page_start = 0, .page_end = 2};
  EXPECT_THAT(plan.writes(), ElementsAre(a, b));
  EXPECT_EQ(plan.token_count(), 3);
  EXPECT_EQ(plan.written_tokens(), 3);
}

TEST(WritePlanTest, SkipPrefixKeepsLocalRows) {
  const BlockTable table(4, {3, 1, 2}, 12);
  KvWritePlan plan = plan_of(table, 2, 9);
  plan.skip_prefix(3);
  const KvWrite straddling{
      .block = 1, .table_index = 1, .local_start = 3, .local_end = 6, .page_start = 1, .page_end = 4};
  const KvWrite whole{.block = 2, .table_index = 2, .local_start = 6, .local_end = 9, .page_start = 0, .page_end = 3};
  EXPECT_THAT(plan.writes(), ElementsAre(straddling, whole));
  EXPECT_EQ(plan.token_count(), 9);
  EXPECT_EQ(plan.written_tokens(), 6);
  plan.skip_prefix(6);
  EXPECT_THAT(plan.writes(), ElementsAre(whole));
  plan.skip_prefix(0);
  EXPECT_THAT(plan.writes(), ElementsAre(whole));
  plan.skip_prefix(9);
  EXPECT_TRUE(plan.writes().empty());
}

TEST(WritePlanTest, EveryTokenGoesWhereTheTableSays) {
  const BlockTable table(3, {5, 0, 8, 2}, 12);
  for (std::int64_t offset = 0; offset < 12; ++offset) {
    for (std::int64_t count = 0; offset + count <= 12; ++count) {
      std::vector<std::int64_t> slots(static_cast<std::size_t>(count), -1);
      const KvWritePlan plan = plan_of(table, offset, count);
      for (const KvWrite& write : plan.writes()) {
        for (std::int64_t row = write.local_start; row < write.local_end; ++row) {
          slots[static_cast<std::size_t>(row)] = write.block * 3 + write.page_start + row - write.local_start;
        }
      }
      for (std::int64_t row = 0; row < count; ++row) {
        const std::int64_t position = offset + row;
        const BlockId block = table.blocks()[static_cast<std::size_t>(position / 3)];
        EXPECT_EQ(slots[static_cast<std::size_t>(row)], slot_index(block, 3, position));
      }
    }
  }
}

// One plan for row after row, as the scheduler has it: the slots of each, and nothing of the one before.
TEST(WritePlanTest, APlanIsMadeAnewInItsMemory) {
  const BlockTable table(3, {5, 0, 8, 2}, 12), other(5, {1, 6}, 10);
  KvWritePlan plan;
  plan.reserve(4);
  std::vector<std::int64_t> slots;
  ASSERT_TRUE(plan.assign(2, table, 2, 6).ok());
  const KvWrite* const memory = plan.writes().data();
  plan.append_slots(slots);
  EXPECT_THAT(slots, ElementsAre(17, 0, 1, 2, 24, 25));
  ASSERT_TRUE(plan.assign(0, other, 4, 3).ok());
  plan.append_slots(slots);
  EXPECT_THAT(slots, ElementsAre(17, 0, 1, 2, 24, 25, 9, 30, 31));
  EXPECT_EQ(plan.written_tokens(), 3);
  EXPECT_EQ(plan.writes().data(), memory);
  expect_fault(plan.assign(0, BlockTable(2, {7, kNoBlock}, 4), 0, 4), Fault::kBlockMissing, "position 2");
  EXPECT_TRUE(plan.writes().empty());
  expect_fault(plan.assign(0, BlockTable(), 0, 1), Fault::kBlockSizeUnset, "");
  EXPECT_TRUE(plan.writes().empty());
}

TEST(WritePlanTest, ShortTableShowsInWrittenTokens) {
  const BlockTable table(2, {7, 8}, 4);
  const KvWritePlan plan = plan_of(table, 3, 4);
  EXPECT_EQ(plan.token_count(), 4);
  EXPECT_EQ(plan.written_tokens(), 1);
  EXPECT_EQ(plan_of(table, 9, 2).written_tokens(), 0);
}

TEST(WritePlanTest, MakeRefuses) {
  const auto make = [](const BlockTable& table, std::int64_t offset, std::int64_t count) -> Status {
    PAGODA_TRY(KvWritePlan::make(0, table, offset, count));
    return Ok{};
  };
  expect_fault(make(BlockTable(), 0, 1), Fault::kBlockSizeUnset, "");
  const BlockTable table(2, {kNoBlock, 8}, 4);
  expect_fault(make(table, 1, 2), Fault::kBlockMissing, "position 1");
  EXPECT_TRUE(make(table, 2, 2).ok());
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_fault(make(table, most - 3, 4), Fault::kPositionOverflow, "4 tokens");
  expect_fault(make(table, -1, 1), Fault::kPositionOverflow, "-1");
  expect_fault(make(table, 0, -1), Fault::kPositionOverflow, "-1");
}

// Each check, row by row.
TEST(WritePlanTest, DecodeFaults) {
  const BlockTable table(2, {7, 8}, 4);
  EXPECT_TRUE(plan_of(table, 3, 1).check_decode(0, kGroup, table).ok());
  expect_fault(plan_of(table, 3, 1).check_decode(1, kGroup, table), Fault::kGroupDiffers, "group 0");
  expect_fault(plan_of(table, 2, 2).check_decode(0, kGroup, table), Fault::kCountNotOne, "2");
  expect_fault(plan_of(table, 4, 1).check_decode(0, kGroup, table), Fault::kWritesNotOne, "0 writes");
  expect_fault(plan_of(table, 2, 1).check_decode(0, kGroup, table), Fault::kLengthDiffers, "position is 2");
  GroupConfig other = kGroup;
  other.block_size = 4;
  expect_fault(plan_of(table, 3, 1).check_decode(0, other, table), Fault::kBlockSizeDiffers, "2");
  other = kGroup;
  other.block_count = 8;
  expect_fault(plan_of(table, 3, 1).check_decode(0, other, table), Fault::kBlockOutOfRange, "block 8");
  expect_fault(plan_of(table, 3, 1).check_decode(0, kGroup, BlockTable(4, {7}, 4)), Fault::kBlockSizeDiffers, "4");
  expect_fault(plan_of(table, 3, 1).check_decode(0, kGroup, BlockTable()), Fault::kBlockSizeUnset, "");
  expect_fault(plan_of(table, 3, 1).check_decode(0, kGroup, BlockTable(2, {7, 8}, 0)), Fault::kLengthZero, "0");
  expect_fault(plan_of(table, 3, 1).check_decode(0, kGroup, BlockTable(2, {7, 8}, 5)), Fault::kLengthOverCapacity, "5");
  KvWritePlan skipped = plan_of(table, 3, 1);
  skipped.skip_prefix(1);
  expect_fault(skipped.check_decode(0, kGroup, table), Fault::kWritesNotOne, "0 writes");
}

TEST(WritePlanTest, PrefillFaults) {
  const BlockTable table(2, {7, 8, 1}, 5);
  const KvWritePlan plan = plan_of(table, 1, 4);
  EXPECT_TRUE(plan.check_prefill(0, kGroup, table, 1, 4).ok());
  expect_fault(plan.check_prefill(2, kGroup, table, 1, 4), Fault::kGroupDiffers, "group 2");
  expect_fault(plan.check_prefill(0, kGroup, table, 1, 0), Fault::kCountZero, "position 1");
  expect_fault(plan.check_prefill(0, kGroup, table, 1, 3), Fault::kCountDiffers, "4");
  expect_fault(plan.check_prefill(0, kGroup, table, 0, 4), Fault::kCountDiffers, "from 1");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_fault(plan.check_prefill(0, kGroup, table, most, 4), Fault::kPositionOverflow, "4 tokens");
  expect_fault(plan_of(table, 3, 4).check_prefill(0, kGroup, table, 3, 4), Fault::kWrittenDiffers, "3 of 4");
  expect_fault(plan.check_prefill(0, kGroup, BlockTable(2, {7, 8, 1}, 6), 1, 4), Fault::kLengthDiffers, "5");
  expect_fault(plan.check_prefill(0, kGroup, BlockTable(2, {}, 5), 1, 4), Fault::kTableEmpty, "full");
  expect_fault(plan.check_prefill(0, kGroup, BlockTable(2, {7, 9, 1}, 5), 1, 4), Fault::kBlockOutOfRange, "block 9");
}

// A returned block is no fault where no query reads, and one where a query does.
TEST(WritePlanTest, E4_WindowDecidesWhichEntriesMayBeEmpty) {
  const BlockTable table(2, {kNoBlock, 8, 1}, 5);
  GroupConfig windowed{.name = "window 3", .block_size = 2, .block_count = 9, .window = 3};
  EXPECT_TRUE(plan_of(table, 4, 1).check_decode(0, windowed, table).ok());  // sees 2, 3, 4
  windowed.window = 4;                                                      // sees 1 too
  expect_fault(plan_of(table, 4, 1).check_decode(0, windowed, table), Fault::kBlockMissing, "entry 0");
  expect_fault(plan_of(table, 4, 1).check_decode(0, kGroup, table), Fault::kBlockMissing, "entry 0");
}

TEST(BlockTableTest, BlockSizeMayBeUnset) {
  EXPECT_EQ(BlockTable().block_size(), std::nullopt);
  EXPECT_EQ(BlockTable().capacity(), 0);
  BlockTable table(16, {4}, 0);
  table.set_token_len(40);
  EXPECT_EQ(table.token_len(), 40);  // not held to the capacity of 16 here
  EXPECT_EQ(table.capacity(), 16);
}

}  // namespace
}  // namespace pagoda::kv
