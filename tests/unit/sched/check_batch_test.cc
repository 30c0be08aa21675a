// Each fault of a batch (of decodes and of prefill) is found by name in a batch that was sound before.
#include "sched/check_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kv/fault.h"

namespace pagoda::sched {
namespace {

using kv::Fault;
using ::testing::StartsWith;

const std::vector<kv::GroupConfig> kGroups = {{.name = "full", .block_size = 4, .block_count = 9},
                                              {.name = "window", .block_size = 4, .block_count = 7, .window = 3}};
constexpr BatchBounds kBounds{.max_rows = 3, .max_tokens = 6, .max_blocks = 3};

/// A decode at position 9 in slot 2 and a prefill of positions 2, 3, 4 in slot 0.
Batch sound_batch() {
  return {.step = 1,
          .rows = {{.slot = 2, .sequence = 5, .start = 9, .count = 1, .token_offset = 0, .wants_id = true},
                   {.slot = 0, .sequence = 8, .start = 2, .count = 3, .token_offset = 1}},
          .tokens = {11, 12, 13, 14},
          .targets = {-1, -1, -1, -1},
          .groups = {{.block_tables = {3, 4, 8, 1, 2}, .table_begin = {0, 3, 5}, .write_slots = {33, 6, 7, 8}},
                     {.block_tables = {-1, 6, 5, 0, 3}, .table_begin = {0, 3, 5}, .write_slots = {21, 2, 3, 12}}},
          .admitted = {}};
}

void expect_fault(Fault fault, const std::function<void(Batch&)>& damage, BatchBounds bounds = kBounds) {
  Batch batch = sound_batch();
  damage(batch);
  const Status status = check(batch, kGroups, bounds);
  ASSERT_FALSE(status.ok()) << to_string(fault);
  EXPECT_THAT(status.error().message, StartsWith(std::string(to_string(fault)) + ": "));
}

TEST(CheckBatchTest, ASoundBatchPasses) {
  const Status status = check(sound_batch(), kGroups, kBounds);
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(sound_batch().num_ids(), 1);
}

TEST(CheckBatchTest, RowsAndTokensWithinBounds) {
  expect_fault(Fault::kBatchEmpty, [](Batch& batch) { batch.clear(); });
  expect_fault(Fault::kTooManyRows, [](Batch&) {}, {.max_rows = 1, .max_tokens = 6, .max_blocks = 3});
  expect_fault(Fault::kTooManyTokens, [](Batch&) {}, {.max_rows = 3, .max_tokens = 3, .max_blocks = 3});
  expect_fault(Fault::kTableTooLong, [](Batch&) {}, {.max_rows = 3, .max_tokens = 6, .max_blocks = 2});
  expect_fault(Fault::kTooManyRows, [](Batch& batch) { batch.rows[1].slot = 3; });
  expect_fault(Fault::kTooManyRows, [](Batch& batch) { batch.rows[1].slot = 2; });
  expect_fault(Fault::kCountZero, [](Batch& batch) { batch.rows[1].count = 0; });
  expect_fault(Fault::kPositionOverflow, [](Batch& batch) { batch.rows[1].start = -1; });
  expect_fault(Fault::kPositionOverflow, [](Batch& batch) { batch.rows[1].start = INT64_MAX - 2; });
}

TEST(CheckBatchTest, VectorsOfOneLength) {
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.tokens.push_back(1); });
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.targets.pop_back(); });
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.groups[1].write_slots.pop_back(); });
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.groups[0].table_begin.pop_back(); });
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.groups[0].block_tables.pop_back(); });
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.rows[1].token_offset = 0; });
  expect_fault(Fault::kVectorsDiffer, [](Batch& batch) { batch.groups.pop_back(); });
}

TEST(CheckBatchTest, TablesCoverWhatIsReadAndWritten) {
  expect_fault(Fault::kBlockOutOfRange, [](Batch& batch) { batch.groups[0].block_tables[1] = 9; });
  expect_fault(Fault::kBlockMissing, [](Batch& batch) { batch.groups[0].block_tables[0] = kv::kNoBlock; });
  expect_fault(Fault::kBlockMissing, [](Batch& batch) { batch.groups[1].block_tables[1] = kv::kNoBlock; });  // sees 7
  expect_fault(Fault::kLengthOverCapacity, [](Batch& batch) { batch.rows[0].start = 12; });
  expect_fault(Fault::kTableEmpty, [](Batch& batch) {
    batch.groups[0].block_tables = {1, 2};
    batch.groups[0].table_begin = {0, 0, 2};
  });
}

// CASES F1: nothing is written where it does not belong.
TEST(CheckBatchTest, F1_EveryTokenIsWrittenInItsOwnPlace) {
  expect_fault(Fault::kPageRange, [](Batch& batch) { batch.groups[0].write_slots[2] = -1; });
  expect_fault(Fault::kPageRange, [](Batch& batch) { batch.groups[1].write_slots[0] = 20; });
  expect_fault(Fault::kPageRange, [](Batch& batch) {  // two rows into one page
    batch.groups[0].block_tables[2] = 2;
    batch.rows[0].start = 8;
    batch.groups[0].write_slots[0] = 8;
    batch.groups[1].write_slots[0] = 20;
  });
}

}  // namespace
}  // namespace pagoda::sched
