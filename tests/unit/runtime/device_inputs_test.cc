// What a step brings to a GPU, held against a plain reading of the batch: random sequences that come, go, grow and
// change rows; two cache groups, one with a window.
#include "runtime/device_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "fixtures/paper_runner.h"

namespace pagoda::runtime {
namespace {

using fixtures::PaperCopy;
using fixtures::PaperDriver;
using fixtures::PaperLaunch;
using kernels::BlockTableChange;
using kernels::CudaBlockTablesParams;
using kernels::PrefillItem;
using testing::IsEmpty;

constexpr std::int64_t kBlock = 16, kContext = 200, kMaxBlocks = 13, kWindow = 40;
constexpr std::int32_t kRows = 11, kTokens = 83, kVocab = 67;
constexpr std::int64_t kCaptured = 7;

model::Plan plan_of_two_groups(const device::DeviceCaps& caps) {
  fixtures::TinyConfig config = fixtures::paper_config();
  config.architecture = "gemma3";
  config.layers = 6;
  config.window = kWindow;
  const std::string bytes = fixtures::TinyModel(config).bytes();
  const io::ModelFile file = fixtures::open_bytes(bytes).value();
  const model::ModelDescription description = model::describe_model(file.config(), file.tensors()).value();
  model::PlanOptions options;
  options.max_rows = kRows;
  options.max_step_tokens = kTokens;
  model::Plan plan = model::make_plan(description.spec, description.binding, caps, options).value();
  EXPECT_EQ(plan.spec.cache_groups.size(), 2u);
  return plan;
}

/// A sequence as the scheduler would keep it.
struct Sequence {
  std::int64_t computed = 0;
  std::vector<std::vector<std::int32_t>> tables;  // by group
};

class DeviceInputsTest : public testing::Test {
 protected:
  DeviceInputsTest() : device_(paper_.open()), stream_(device_->context()), plan_(plan_of_two_groups(device_->caps())) {
    inputs_.emplace(DeviceInputs::create(plan_, *device_, kCaptured).value());
    inputs_->set_last_ids(reinterpret_cast<const std::int32_t*>(0x1234));
    paper_.on_launch = [this](const PaperLaunch& launch) { run(launch); };
  }

  /// What cuda_block_tables.cu does.
  void run(const PaperLaunch& launch) {
    ASSERT_EQ(launch.kernel, "block_tables");
    const auto params = launch.as<CudaBlockTablesParams>();
    changes_ += params.count;
    ASSERT_GE(launch.grid.x * launch.block.x, params.count);
    for (std::int64_t i = 0; i < params.count; ++i) params.tables[params.changes[i].index] = params.changes[i].block;
  }

  std::int64_t random(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(rng_);
  }

  /// Adds a row; false if the step has no room for it.
  bool add_row(sched::Batch& batch, std::int32_t slot, std::int64_t count, bool on_device) {
    Sequence& sequence = sequences_[static_cast<std::size_t>(slot)];
    count = std::min(count, kContext - sequence.computed);
    if (std::ssize(batch.tokens) + count > kTokens || count < 1) return false;
    sequence.tables.resize(2);
    batch.rows.push_back({.slot = slot,
                          .sequence = slot,
                          .start = sequence.computed,
                          .count = static_cast<std::int32_t>(count),
                          .token_offset = std::ssize(batch.tokens),
                          .wants_id = true,
                          .first_id_on_device = on_device});
    for (std::int64_t i = 0; i < count; ++i) {
      const bool unknown = i == 0 && on_device;
      batch.tokens.push_back(unknown ? sched::kNoToken : static_cast<std::int32_t>(random(0, kVocab - 1)));
    }
    const std::int64_t end = sequence.computed + count;
    for (std::size_t g = 0; g < 2; ++g) {
      auto& table = sequence.tables[g];
      while (std::ssize(table) * kBlock < end) table.push_back(static_cast<std::int32_t>(random(0, 5000)));
      const std::int64_t window = plan_.spec.cache_groups[g].window;
      for (std::int64_t b = 0; window > 0 && (b + 1) * kBlock <= sequence.computed + 1 - window; ++b) {
        table[static_cast<std::size_t>(b)] = kv::kNoBlock;
      }
      sched::Batch::Group& group = batch.groups[g];
      group.block_tables.insert(group.block_tables.end(), table.begin(), table.end());
      group.table_begin.push_back(std::ssize(group.block_tables));
      for (std::int64_t t = sequence.computed; t < end; ++t) {
        group.write_slots.push_back(std::int64_t{table[static_cast<std::size_t>(t / kBlock)]} * kBlock + t % kBlock);
      }
    }
    sequence.computed = end;
    return true;
  }

  sched::Batch empty_batch() {
    sched::Batch batch;
    batch.groups.resize(2);
    for (auto& group : batch.groups) group.table_begin.assign(1, 0);
    return batch;
  }

  /// Rows in a random order; some sequences end and others take their slots.
  sched::Batch random_batch(bool decodes) {
    sched::Batch batch = empty_batch();
    std::vector<std::int32_t> slots(kRows);
    std::iota(slots.begin(), slots.end(), 0);
    if (random(0, 2) == 0) std::shuffle(slots.begin(), slots.end(), rng_);
    const std::int64_t rows = random(1, decodes ? kCaptured : kRows);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int32_t slot = slots[static_cast<std::size_t>(r)];
      Sequence& sequence = sequences_[static_cast<std::size_t>(slot)];
      if (sequence.computed == kContext || random(0, 19) == 0) sequence = {};
      const std::int64_t count = decodes || random(0, 2) == 0 ? 1 : random(2, 60);
      add_row(batch, slot, count, sequence.computed > 0 && random(0, 1) == 0);
    }
    return batch;
  }

  /// Entries of the tables that a batch changes, and what the tables hold after it.
  std::int64_t apply(const sched::Batch& batch) {
    std::int64_t changed = 0;
    for (std::size_t g = 0; g < 2; ++g) {
      for (std::size_t r = 0; r < batch.rows.size(); ++r) {
        const auto table = batch.block_table(r, g);
        for (std::size_t i = 0; i < table.size(); ++i) {
          std::int32_t& known = tables_[g][r][i];
          changed += known != table[i] ? 1 : 0;
          known = table[i];
        }
      }
    }
    return changed;
  }

  void check_rows(const sched::Batch& batch, std::int64_t padded) {
    const model::DecoderInputs& got = inputs_->get();
    const auto rows = std::ssize(batch.rows);
    ASSERT_EQ(got.step.num_rows, padded);
    for (std::int64_t r = 0; r < rows; ++r) {
      const sched::Row& row = batch.rows[static_cast<std::size_t>(r)];
      EXPECT_EQ(got.step.row_offsets[r], row.token_offset);
      EXPECT_EQ(got.step.row_starts[r], row.start);
      for (std::int64_t i = 0; i < row.count; ++i) {
        const std::int64_t token = row.token_offset + i;
        const bool on_device = i == 0 && row.first_id_on_device;
        EXPECT_EQ(got.ids[token], on_device ? -1 - row.slot : batch.tokens[static_cast<std::size_t>(token)]);
        EXPECT_EQ(got.step.positions[token], row.start + i);
        for (std::size_t g = 0; g < 2; ++g) {
          EXPECT_EQ(got.groups[g].write_slots[token], batch.groups[g].write_slots[static_cast<std::size_t>(token)]);
        }
      }
    }
    for (std::size_t g = 0; g < 2; ++g) {
      EXPECT_EQ(got.groups[g].max_blocks, kMaxBlocks);
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t i = 0; i < kMaxBlocks; ++i) {
          ASSERT_EQ(
              got.groups[g].block_tables[static_cast<std::int64_t>(r) * kMaxBlocks + static_cast<std::int64_t>(i)],
              tables_[g][r][i])
              << "group " << g << ", row " << r << ", block " << i;
        }
      }
    }
    // CASES F1: rows of a bucket that no sequence has hold no token and write nowhere.
    for (std::int64_t r = rows; r < padded; ++r) {
      EXPECT_EQ(got.step.row_offsets[r], std::ssize(batch.tokens));
      EXPECT_EQ(got.ids[r], 0);
      for (std::size_t g = 0; g < 2; ++g) EXPECT_EQ(got.groups[g].write_slots[r], -1);
    }
    EXPECT_EQ(got.step.row_offsets[padded], std::ssize(batch.tokens));
  }

  /// Each token of a row of several is in one item, no item is of two rows or too long, the last positions come first.
  void check_items(const sched::Batch& batch) {
    for (std::size_t g = 0; g < 2; ++g) {
      const kernels::GroupInputs& group = inputs_->get().groups[g];
      const auto* const items = static_cast<const PrefillItem*>(group.prefill_items);
      std::vector<int> seen(batch.tokens.size());
      for (std::int64_t i = 0; i < group.num_prefill_items; ++i) {
        const sched::Row& row = batch.rows[static_cast<std::size_t>(items[i].row)];
        EXPECT_GT(row.count, 1);
        EXPECT_EQ(items[i].position, row.start + items[i].token - row.token_offset);
        EXPECT_TRUE(i == 0 || items[i].position <= items[i - 1].position);
        for (std::int32_t t = 0; t < items[i].count; ++t) ++seen[static_cast<std::size_t>(items[i].token + t)];
      }
      for (const sched::Row& row : batch.rows) {
        for (std::int64_t t = row.token_offset; t < row.token_offset + row.count; ++t) {
          EXPECT_EQ(seen[static_cast<std::size_t>(t)], row.count > 1 ? 1 : 0);
        }
      }
    }
    EXPECT_EQ(inputs_->get().step.num_single_rows,
              std::ranges::count_if(batch.rows, [](const sched::Row& row) { return row.count == 1; }));
  }

  std::int64_t write(const sched::Batch& batch, std::int64_t bucket) {
    std::vector<std::int64_t> wanted;
    for (const sched::Row& row : batch.rows) wanted.push_back(row.token_offset + row.count - 1);
    paper_.forget();
    changes_ = 0;
    inputs_->write(batch, wanted, bucket, stream_);
    paper_.run();
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(inputs_->get().wanted[i], wanted[i]);
    EXPECT_EQ(inputs_->get().num_wanted, bucket > 0 ? bucket : std::ssize(wanted));
    const std::vector<PaperCopy> copies = paper_.copies();
    EXPECT_EQ(copies.size(), 1u) << "a step is brought over by one copy";
    return static_cast<std::int64_t>(copies.at(0).bytes);
  }

  PaperDriver paper_;
  std::unique_ptr<device::cuda::CudaDevice> device_;
  device::cuda::CudaStream stream_;
  model::Plan plan_;
  std::optional<DeviceInputs> inputs_;
  std::mt19937 rng_{7};
  std::vector<Sequence> sequences_ = std::vector<Sequence>(kRows);
  std::int64_t changes_ = 0;
  std::vector<std::vector<std::vector<std::int32_t>>> tables_ =
      std::vector(2, std::vector(static_cast<std::size_t>(kRows), std::vector<std::int32_t>(kMaxBlocks, kv::kNoBlock)));
};

TEST_F(DeviceInputsTest, AreTheBatch) {
  for (int step = 0; step < 400; ++step) {
    SCOPED_TRACE(step);
    const bool decodes = random(0, 1) == 0;
    const sched::Batch batch = random_batch(decodes);
    if (batch.rows.empty()) continue;
    const bool single = std::ssize(batch.tokens) == std::ssize(batch.rows);
    const std::int64_t bucket = single && decodes ? random(std::ssize(batch.rows), kCaptured) : 0;
    const std::int64_t changed = apply(batch);
    write(batch, bucket);
    EXPECT_EQ(changes_, changed) << "only entries that changed travel";
    check_rows(batch, bucket > 0 ? bucket : std::ssize(batch.rows));
    if (bucket == 0) check_items(batch);
    EXPECT_EQ(inputs_->get().last_ids, reinterpret_cast<const std::int32_t*>(0x1234));
    if (bucket > 0) {
      const model::DecoderInputs captured = inputs_->decode_inputs(bucket);
      EXPECT_EQ(captured.ids, inputs_->get().ids) << "captured steps read where it was written";
      EXPECT_EQ(captured.step.row_offsets, inputs_->get().step.row_offsets);
      EXPECT_EQ(captured.groups[1].write_slots, inputs_->get().groups[1].write_slots);
      EXPECT_EQ(captured.wanted, inputs_->get().wanted);
      EXPECT_EQ(captured.num_wanted, bucket);
    }
    if (HasFailure()) break;
  }
  EXPECT_THAT(paper_.faults(), IsEmpty());
}

TEST_F(DeviceInputsTest, AStepsBytesDoNotGrowWithWhatIsKept) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t position = 0; position < kContext; ++position) {
    sched::Batch batch = empty_batch();
    for (std::int32_t slot = 0; slot < 3; ++slot) add_row(batch, slot, 1, false);
    const std::int64_t one = write(batch, 3);
    // A table's entry is 8 bytes: a new block of each row and group, and one that the window has passed.
    EXPECT_LE(changes_, position % kBlock == 0 ? 6 : position % kBlock == (kWindow - 1) % kBlock ? 3 : 0) << position;
    bytes.push_back(one - changes_ * 8);
  }
  for (const std::int64_t one : bytes) EXPECT_EQ(one, bytes.front());
  EXPECT_LE(bytes.front(), 512);
}

TEST_F(DeviceInputsTest, RowsThatMoveTakeTheirTablesAlong) {
  sched::Batch first = empty_batch();
  for (std::int32_t slot = 0; slot < 2; ++slot) add_row(first, slot, 40, false);
  apply(first);
  write(first, 0);
  EXPECT_EQ(changes_, 2 * 2 * 3);
  sched::Batch moved = empty_batch();
  for (const std::int32_t slot : {1, 0}) add_row(moved, slot, 1, false);
  apply(moved);
  write(moved, 2);
  EXPECT_EQ(changes_, 2 * 2 * 3);
  check_rows(moved, 2);
}

}  // namespace
}  // namespace pagoda::runtime
