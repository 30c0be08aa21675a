#include "runtime/cache_store.h"

#include <algorithm>
#include <limits>

namespace pagoda::runtime {
namespace {

/// The groups with room for `tokens`, not yet checked against anything.
std::vector<kv::GroupConfig> groups_for(const model::Plan& plan, std::int64_t tokens) {
  std::vector<kv::GroupConfig> groups;
  for (std::int32_t i = 0; i < std::ssize(plan.spec.cache_groups); ++i) {
    const model::CacheGroupSpec& spec = plan.spec.cache_groups[static_cast<std::size_t>(i)];
    kv::GroupConfig group;
    group.name = spec.name;
    group.block_size = plan.options.block_size;
    group.window = spec.window;
    group.num_layers = static_cast<std::int32_t>(spec.layers.size());
    group.bytes_per_block = plan.bytes_per_block(i);
    group.block_count = group.blocks_for(tokens);
    if (group.windowed()) {
      const std::int64_t one = group.peak_blocks(plan.options.context, plan.options.max_step_tokens);
      group.block_count = std::min(group.block_count, 2 * one * plan.options.max_rows);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::int64_t bytes_of(std::span<const kv::GroupConfig> groups) {
  std::int64_t bytes = 0;
  for (const kv::GroupConfig& group : groups) bytes += group.block_count * group.bytes_per_block;
  return bytes;
}

}  // namespace

Result<std::vector<kv::GroupConfig>> size_cache(const model::Plan& plan, const CacheSize& size) {
  const std::int64_t block = plan.options.block_size;
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2 * block;
  if (size.tokens < 0 || size.tokens > most) {
    return fail_param(ErrorCode::kInvalidArgument, "--kv-tokens", "--kv-tokens is {}; it must be from 1 to {}",
                      size.tokens, most);
  }
  if (size.bytes < 0) {
    return fail_param(ErrorCode::kInvalidArgument, "--kv-bytes", "--kv-bytes is {}; it must be above 0", size.bytes);
  }
  if (size.bytes == 0) return groups_for(plan, size.tokens > 0 ? size.tokens : plan.options.context);
  // The bytes grow with the tokens: the most blocks that fit are found by halving.
  std::int64_t low = 0;
  std::int64_t high = std::min(most / block, size.bytes);
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (bytes_of(groups_for(plan, middle * block)) <= size.bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == 0) {
    return fail_param(ErrorCode::kInvalidArgument, "--kv-bytes", "--kv-bytes is {}; one block of {} tokens takes {}",
                      size.bytes, block, bytes_of(groups_for(plan, block)));
  }
  return groups_for(plan, low * block);
}

Result<CacheStore> CacheStore::create(const model::Plan& plan, std::span<const kv::GroupConfig> groups,
                                      device::Device& device) {
  CacheStore store;
  // Attention reads all of a sequence's pages each step: large pages of memory save it a fifth of the time. They cost
  // at most two of them a layer, since blocks are taken from the start.
  store.memory_ = PAGODA_TRY(device.allocate(bytes_of(groups), "the cache of keys and values", device::Use::kOften));
  std::byte* at = store.memory_.data();
  for (std::int32_t layer = 0; layer < std::ssize(plan.spec.layers); ++layer) {
    const std::int32_t group = plan.spec.layers[static_cast<std::size_t>(layer)].attention.cache_group;
    const std::int64_t stride = plan.page_stride(layer);
    const std::int64_t blocks = groups[static_cast<std::size_t>(group)].block_count;
    store.pages_.push_back({.data = at, .block_stride = stride, .num_blocks = blocks});
    at += stride * blocks;
  }
  return store;
}

}  // namespace pagoda::runtime
