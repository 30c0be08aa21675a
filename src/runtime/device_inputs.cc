#include "runtime/device_inputs.h"

#include <algorithm>
#include <cstring>

#include "kernels/attention/cuda_attention.h"
#include "kernels/attention/cuda_prefill.h"
#include "kernels/cuda/launch.h"

namespace pagoda::runtime {
namespace {

using kernels::BlockTableChange;
using kernels::PrefillItem;

constexpr int kUpdateThreads = 128;
constexpr std::int64_t kAlignment = 256;

/// Gives arrays their places, one behind the other.
class Offsets {
 public:
  explicit Offsets(std::int64_t begin) : begin_(begin), at_(begin) {}
  template <class T>
  std::int64_t take(std::int64_t count) {
    const std::int64_t place = at_ - begin_;
    at_ += round_up<std::int64_t>(count * static_cast<std::int64_t>(sizeof(T)), 16);
    return place;
  }
  std::int64_t bytes() const { return round_up(at_ - begin_, kAlignment); }

 private:
  std::int64_t begin_, at_;
};

}  // namespace

DeviceInputs::Region DeviceInputs::make_region(std::int64_t begin, std::int64_t tokens, std::int64_t rows,
                                               bool prefill) const {
  Region region{.begin = begin, .tokens = tokens, .rows = rows, .write_slots = {}, .items = {}};
  Offsets offsets(begin);
  region.ids = offsets.take<std::int32_t>(tokens);
  region.positions = offsets.take<std::int64_t>(tokens);
  region.row_offsets = offsets.take<std::int64_t>(rows + 1);
  region.row_starts = offsets.take<std::int64_t>(rows);
  region.wanted = offsets.take<std::int64_t>(tokens);
  for (const std::int64_t item_tokens : item_tokens_) {
    region.write_slots.push_back(offsets.take<std::int64_t>(tokens));
    region.items.push_back(offsets.take<PrefillItem>(prefill ? tokens / item_tokens + rows : 0));
  }
  region.changes = offsets.take<BlockTableChange>(std::ssize(mirror_));
  region.bytes = offsets.bytes();
  return region;
}

device::CompileUnit DeviceInputs::unit(const device::DeviceCaps& caps) {
  return kernels::cuda_unit(caps, "kv_store/cuda_block_tables.cu", {kernels::define("THREADS", kUpdateThreads)});
}

Result<DeviceInputs> DeviceInputs::create(const model::Plan& plan, device::cuda::CudaDevice& device,
                                          std::int64_t most_decode_rows) {
  DeviceInputs inputs;
  const model::PlanOptions& options = plan.options;
  inputs.block_size_ = options.block_size;
  inputs.max_blocks_ = ceil_div<std::int64_t>(options.context, options.block_size);
  inputs.max_rows_ = options.max_rows;
  inputs.vocab_ = plan.spec.vocab;
  inputs.least_item_ = options.deterministic ? 1 : 2;
  for (const model::CacheGroupSpec& group : plan.spec.cache_groups) {
    const auto layer = static_cast<std::size_t>(group.layers.front());
    inputs.item_tokens_.push_back(kernels::prefill_item_tokens(plan.layers[layer].attention.problem, plan.caps));
  }
  const std::int64_t entries = std::ssize(inputs.item_tokens_) * inputs.max_rows_ * inputs.max_blocks_;
  inputs.mirror_.assign(static_cast<std::size_t>(entries), kv::kNoBlock);
  inputs.decode_ = inputs.make_region(0, most_decode_rows, most_decode_rows, false);
  inputs.any_ = inputs.make_region(inputs.decode_.bytes, options.max_step_tokens, options.max_rows, true);
  const std::int64_t tables_at = inputs.decode_.bytes + inputs.any_.bytes;
  const std::int64_t table_bytes = entries * static_cast<std::int64_t>(sizeof(std::int32_t));
  inputs.memory_ = PAGODA_TRY(device.allocate(tables_at + table_bytes, "a step's inputs"));
  inputs.tables_ = reinterpret_cast<std::int32_t*>(inputs.memory_.data() + tables_at);
  device.upload(inputs.memory_.data() + tables_at, inputs.mirror_.data(), table_bytes);
  for (int i = 0; i < 2; ++i) {
    inputs.staging_.push_back(PAGODA_TRY(
        device::cuda::PinnedBytes::create(device.context(), std::max(inputs.decode_.bytes, inputs.any_.bytes))));
  }
  inputs.update_ =
      PAGODA_TRY(device.kernel<kernels::CudaBlockTablesParams>(DeviceInputs::unit(device.caps()), "block_tables"));
  inputs.programmatic_ = kernels::programmatic(device.caps());
  for (const Region* region : {&inputs.decode_, &inputs.any_}) {
    auto& groups = region == &inputs.decode_ ? inputs.decode_groups_ : inputs.any_groups_;
    std::byte* const base = inputs.memory_.data() + region->begin;
    for (std::size_t g = 0; g < inputs.item_tokens_.size(); ++g) {
      const std::int64_t first = static_cast<std::int64_t>(g) * inputs.max_rows_ * inputs.max_blocks_;
      groups.push_back({.block_tables = inputs.tables_ + first,
                        .max_blocks = inputs.max_blocks_,
                        .write_slots = inputs.at<std::int64_t>(base, region->write_slots[g]),
                        .work = nullptr,
                        .prefill_items = base + region->items[g],
                        .num_prefill_items = 0});
    }
  }
  return inputs;
}

model::DecoderInputs DeviceInputs::inputs_of(const Region& region, std::int64_t rows, std::int64_t tokens) {
  std::byte* const base = memory_.data() + region.begin;
  return {.ids = at<std::int32_t>(base, region.ids),
          .last_ids = last_ids_,
          .step = {.num_tokens = tokens,
                   .num_rows = rows,
                   .positions = at<std::int64_t>(base, region.positions),
                   .row_offsets = at<std::int64_t>(base, region.row_offsets),
                   .row_starts = at<std::int64_t>(base, region.row_starts),
                   .num_single_rows = rows},
          .groups = &region == &decode_ ? decode_groups_ : any_groups_,
          .wanted = at<std::int64_t>(base, region.wanted),
          .num_wanted = tokens};
}

model::DecoderInputs DeviceInputs::decode_inputs(std::int64_t rows) {
  PAGODA_CHECK(rows <= decode_.rows, "{} rows of {}", rows, decode_.rows);
  return inputs_of(decode_, rows, rows);
}

void DeviceInputs::write(const sched::Batch& batch, std::span<const std::int64_t> wanted, std::int64_t decode_rows,
                         device::cuda::CudaStream& stream) {
  const Region& region = decode_rows > 0 ? decode_ : any_;
  const std::int64_t rows = std::max(decode_rows, std::ssize(batch.rows));
  turn_ ^= 1;
  device::cuda::PinnedBytes& staging = staging_[turn_];
  std::byte* const host = staging.host();
  write_rows(batch, region, rows, host);
  std::int64_t* const want = at<std::int64_t>(host, region.wanted);
  std::ranges::copy(wanted, want);
  // A padded row's logits are computed and dropped.
  for (std::int64_t i = std::ssize(wanted); i < decode_rows; ++i) want[i] = i;
  const std::int64_t tokens = std::max(decode_rows, std::ssize(batch.tokens));
  inputs_ = inputs_of(region, rows, tokens);
  if (decode_rows == 0) inputs_.num_wanted = std::ssize(wanted);
  inputs_.step.num_single_rows =
      decode_rows > 0 ? decode_rows : std::ranges::count_if(batch.rows, [](const auto& row) { return row.count == 1; });
  for (std::size_t g = 0; decode_rows == 0 && g < any_groups_.size(); ++g) {
    any_groups_[g].num_prefill_items = write_items(batch, region, g, host);
  }
  const std::int64_t changes = write_changes(batch, region, host);
  std::byte* const base = memory_.data() + region.begin;
  const std::int64_t bytes = region.changes + changes * static_cast<std::int64_t>(sizeof(BlockTableChange));
  staging.upload(0, bytes, base, stream);
  if (changes == 0) return;
  update_.launch(stream,
                 {.grid = {.x = kernels::grid_size(ceil_div<std::int64_t>(changes, kUpdateThreads))},
                  .block = {.x = kUpdateThreads}},
                 {.tables = tables_, .changes = at<BlockTableChange>(base, region.changes), .count = changes});
}

void DeviceInputs::write_rows(const sched::Batch& batch, const Region& region, std::int64_t padded_rows,
                              std::byte* host) const {
  PAGODA_CHECK(padded_rows <= region.rows && std::ssize(batch.tokens) <= region.tokens, "{} rows, {} tokens",
               padded_rows, batch.tokens.size());
  auto* const ids = at<std::int32_t>(host, region.ids);
  auto* const positions = at<std::int64_t>(host, region.positions);
  auto* const row_offsets = at<std::int64_t>(host, region.row_offsets);
  auto* const row_starts = at<std::int64_t>(host, region.row_starts);
  std::int64_t token = 0;
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const sched::Row& row = batch.rows[r];
    PAGODA_CHECK(row.token_offset == token && row.count >= 1, "row {} begins at {} of {}", r, row.token_offset, token);
    row_offsets[r] = token;
    row_starts[r] = row.start;
    for (std::int64_t i = 0; i < row.count; ++i, ++token) {
      const bool on_device = i == 0 && row.first_id_on_device;
      const std::int32_t id = on_device ? -1 - row.slot : batch.tokens[static_cast<std::size_t>(token)];
      PAGODA_CHECK(on_device || (id >= 0 && id < vocab_), "token {} of row {} is {}", i, r, id);
      ids[token] = id;
      positions[token] = row.start + i;
    }
    for (std::size_t g = 0; g < region.write_slots.size(); ++g) {
      std::ranges::copy(batch.write_slots(row, g), at<std::int64_t>(host, region.write_slots[g]) + row.token_offset);
    }
  }
  for (auto r = std::ssize(batch.rows); r <= padded_rows; ++r) row_offsets[r] = token;
  for (auto r = std::ssize(batch.rows); r < padded_rows; ++r) {
    row_starts[r] = ids[r] = 0;
    positions[r] = 0;
    for (const std::int64_t slots : region.write_slots) at<std::int64_t>(host, slots)[r] = -1;
  }
}

std::int64_t DeviceInputs::write_items(const sched::Batch& batch, const Region& region, std::size_t group,
                                       std::byte* host) const {
  PrefillItem* const items = at<PrefillItem>(host, region.items[group]);
  const std::int64_t most = item_tokens_[group];
  std::int64_t count = 0;
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const sched::Row& row = batch.rows[r];
    for (std::int64_t i = 0; row.count >= least_item_ && i < row.count; i += most) {
      items[count++] = {.row = static_cast<std::int32_t>(r),
                        .token = static_cast<std::int32_t>(row.token_offset + i),
                        .count = static_cast<std::int32_t>(std::min<std::int64_t>(most, row.count - i)),
                        .position = static_cast<std::int32_t>(row.start + i)};
    }
  }
  // The longest first, so that the last wave of blocks is short.
  std::sort(items, items + count, [](const PrefillItem& a, const PrefillItem& b) {
    return a.position != b.position ? a.position > b.position : a.token < b.token;
  });
  return count;
}

std::int64_t DeviceInputs::write_changes(const sched::Batch& batch, const Region& region, std::byte* host) {
  BlockTableChange* const changes = at<BlockTableChange>(host, region.changes);
  std::int64_t count = 0;
  for (std::size_t g = 0; g < item_tokens_.size(); ++g) {
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      const std::span<const kv::BlockId> table = batch.block_table(r, g);
      PAGODA_CHECK(std::ssize(table) <= max_blocks_, "{} blocks of {}", table.size(), max_blocks_);
      const std::int64_t first =
          (static_cast<std::int64_t>(g) * max_rows_ + static_cast<std::int64_t>(r)) * max_blocks_;
      std::int32_t* const known = mirror_.data() + first;
      if (std::memcmp(known, table.data(), table.size_bytes()) == 0) continue;
      for (std::size_t i = 0; i < table.size(); ++i) {
        if (known[i] == table[i]) continue;
        known[i] = table[i];
        changes[count++] = {.index = static_cast<std::int32_t>(first + static_cast<std::int64_t>(i)),
                            .block = table[i]};
      }
    }
  }
  return count;
}

}  // namespace pagoda::runtime
