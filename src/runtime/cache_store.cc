#include "runtime/cache_store.h"

#include <algorithm>
#include <limits>

namespace pagoda::runtime {
namespace {

constexpr const char* kPurpose = "the cache of keys and values";

std::size_t group_of(const model::Plan& plan, std::int32_t layer) {
  return static_cast<std::size_t>(plan.spec.layers[static_cast<std::size_t>(layer)].attention.cache_group);
}

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

/// The most blocks of a cache have numbers of 32 bits.
std::int64_t most_tokens(const model::Plan& plan) {
  return std::numeric_limits<std::int32_t>::max() / 2 * std::int64_t{plan.options.block_size};
}

}  // namespace

std::int64_t cache_bytes(std::span<const kv::GroupConfig> groups) {
  std::int64_t bytes = 0;
  for (const kv::GroupConfig& group : groups) bytes += group.block_count * group.bytes_per_block;
  return bytes;
}

Result<std::vector<kv::GroupConfig>> size_cache(const model::Plan& plan, const CacheSize& size) {
  const std::int64_t block = plan.options.block_size;
  const std::int64_t most = most_tokens(plan);
  if (size.tokens < 0 || size.tokens > most) {
    return fail_param(ErrorCode::kInvalidArgument, "--kv-tokens", "--kv-tokens is {}; it must be from 1 to {}",
                      size.tokens, most);
  }
  if (size.bytes < 0) {
    return fail_param(ErrorCode::kInvalidArgument, "--kv-bytes", "--kv-bytes is {}; it must be above 0", size.bytes);
  }
  if (size.bytes == 0) return groups_for(plan, size.tokens > 0 ? size.tokens : plan.options.context);
  if (size.tokens > 0) {
    std::vector<kv::GroupConfig> whole = groups_for(plan, size.tokens);
    if (cache_bytes(whole) <= size.bytes) return whole;
  }
  // The bytes grow with the tokens: the most blocks that fit are found by halving.
  std::int64_t low = 0;
  std::int64_t high = std::min(most / block, size.bytes);
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (cache_bytes(groups_for(plan, middle * block)) <= size.bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == 0) {
    return fail_param(ErrorCode::kInvalidArgument, "--kv-bytes", "--kv-bytes is {}; one block of {} tokens takes {}",
                      size.bytes, block, cache_bytes(groups_for(plan, block)));
  }
  return groups_for(plan, low * block);
}

Result<std::vector<kv::GroupConfig>> fill_cache(const model::Plan& plan, std::int64_t bytes) {
  const model::PlanOptions& options = plan.options;
  if (const std::int64_t least = cache_bytes(groups_for(plan, options.context)); least > bytes) {
    return fail(
        ErrorCode::kDeviceMemory,
        "the KV cache of one context of {} tokens takes {} bytes, and {} are left for it; --ctx makes it smaller",
        options.context, least, bytes);
  }
  const std::int64_t most = std::min(most_tokens(plan), options.context * options.max_rows);
  std::vector<kv::GroupConfig> groups = groups_for(plan, most);
  if (cache_bytes(groups) <= bytes) return groups;
  return size_cache(plan, {.bytes = bytes});
}

Result<CacheStore> CacheStore::create(const model::Plan& plan, std::span<const kv::GroupConfig> groups,
                                      device::Device& device) {
  CacheStore store;
  // Attention reads all of a sequence's pages each step: large pages of memory save it a fifth of the time. They cost
  // at most two of them a layer, since blocks are taken from the start.
  store.memory_ = PAGODA_TRY(device.allocate(cache_bytes(groups), kPurpose, device::Use::kOften));
  std::byte* at = store.memory_.data();
  for (std::int32_t layer = 0; layer < std::ssize(plan.spec.layers); ++layer) {
    const std::int64_t blocks = groups[group_of(plan, layer)].block_count;
    store.pages_.push_back({.data = at, .block_stride = plan.page_stride(layer), .num_blocks = blocks});
    at += plan.page_stride(layer) * blocks;
  }
  return store;
}

Result<CacheStore> CacheStore::reserve(const model::Plan& plan, std::span<const kv::GroupConfig> most,
                                       device::cuda::CudaDevice& device) {
  CacheStore store;
  for (std::int32_t layer = 0; layer < std::ssize(plan.spec.layers); ++layer) {
    const std::size_t group = group_of(plan, layer);
    const std::int64_t stride = plan.page_stride(layer), blocks = most[group].block_count;
    device::cuda::AddressRange range = PAGODA_TRY(device.reserve(stride * blocks, kPurpose));
    store.pages_.push_back({.data = range.data(), .block_stride = stride, .num_blocks = blocks});
    store.ranges_.push_back(std::move(range));
    store.groups_.push_back(group);
  }
  return store;
}

Status CacheStore::grow(std::span<const kv::GroupConfig> groups, device::cuda::CudaDevice& device) {
  for (std::size_t layer = 0; layer < ranges_.size(); ++layer) {
    const std::int64_t blocks = groups[groups_[layer]].block_count;
    PAGODA_TRY(device.grow(ranges_[layer], pages_[layer].block_stride * blocks, kPurpose));
  }
  return Ok{};
}

std::int64_t CacheStore::bytes() const {
  std::int64_t bytes = memory_.bytes();
  for (const device::cuda::AddressRange& range : ranges_) bytes += range.mapped_bytes();
  return bytes;
}

}  // namespace pagoda::runtime
