#include "kv/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace pagoda::kv {

namespace {

Status check_config(const CacheConfig& config) {
  if (config.groups.empty()) return fail(ErrorCode::kInvalidArgument, "a cache of no groups");
  for (const GroupConfig& group : config.groups) {
    if (group.block_size < 1) {
      return fail(ErrorCode::kInvalidArgument, "group {}: block size {}; at least 1", group.name, group.block_size);
    }
    if (group.block_count < 1 || group.block_count > std::numeric_limits<BlockId>::max()) {
      return fail(ErrorCode::kInvalidArgument, "group {}: {} blocks; 1 to {}", group.name, group.block_count,
                  std::numeric_limits<BlockId>::max());
    }
    if (group.window < 0) {
      return fail(ErrorCode::kInvalidArgument, "group {}: window {}; 0 for none", group.name, group.window);
    }
    if (group.block_size != config.groups.front().block_size) {
      return fail(ErrorCode::kInvalidArgument, "group {}: block size {}, but group {} has {}; all have the same today",
                  group.name, group.block_size, config.groups.front().name, config.groups.front().block_size);
    }
  }
  return Ok{};
}

/// Counting never fails unless our own bookkeeping is wrong.
void must(const Status& status) { PAGODA_CHECK(status.ok(), "{}", status.ok() ? "" : status.error().message); }

void must_release(BlockPool& pool, BlockId block) {
  const Result<bool> freed = pool.release(block);
  PAGODA_CHECK(freed.ok(), "{}", freed.ok() ? "" : freed.error().message);
}

}  // namespace

CachedSequence& CachedSequence::operator=(CachedSequence&& other) noexcept {
  PAGODA_CHECK(!open(), "a sequence of {} tokens is overwritten before its release", token_len_);
  tables_ = std::move(other.tables_);
  first_held_ = std::move(other.first_held_);
  token_len_ = other.token_len_;
  cached_tokens_ = other.cached_tokens_;
  kept_blocks_ = other.kept_blocks_;
  last_key_ = other.last_key_;
  publish_ = other.publish_;
  return *this;
}

CachedSequence::~CachedSequence() {
  PAGODA_CHECK(!open(), "a sequence of {} tokens dies before its release", token_len_);
}

Result<KvCache> KvCache::create(CacheConfig config) {
  PAGODA_TRY(check_config(config));
  return KvCache(std::move(config));
}

KvCache::KvCache(CacheConfig config)
    : configs_(std::move(config.groups)),
      prefixes_(configs_),
      keys_(config.salt),
      model_id_(std::move(config.model_id)),
      keep_prefixes_(config.keep_prefixes),
      runs_(configs_.size()),
      row_(configs_.size(), kNoBlock) {
  pools_.reserve(configs_.size());
  for (const GroupConfig& group : configs_) pools_.emplace_back(group.block_count);
}

Status KvCache::check_capacity(std::int64_t tokens, std::int64_t step_tokens) const {
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    const std::int64_t needed = configs_[g].peak_blocks(tokens, step_tokens);
    if (needed <= configs_[g].block_count) continue;
    return fail(ErrorCode::kCacheCapacity, "{} tokens need {} blocks of cache group {}, which has {}", tokens, needed,
                configs_[g].name, configs_[g].block_count);
  }
  return Ok{};
}

std::int64_t KvCache::capacity_tokens(std::int64_t step_tokens) const {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const GroupConfig& group : configs_) {
    const std::int64_t whole_pool = group.block_count * group.block_size;
    const bool wraps = group.windowed() && group.peak_blocks(whole_pool + 1, step_tokens) <= group.block_count;
    if (!wraps) most = std::min(most, whole_pool);
  }
  return most;
}

std::int64_t KvCache::outstanding_blocks(const CachedSequence& sequence, std::size_t group, std::int64_t tokens,
                                         std::int64_t step_tokens) const {
  const std::int64_t held = sequence.tables_[group].block_count() - sequence.first_held_[group];
  return std::max<std::int64_t>(configs_[group].peak_blocks(tokens, step_tokens) - held, 0);
}

std::int64_t KvCache::find_prefix(const OpenRequest& request) {
  links_.clear();
  std::ranges::fill(runs_, 0);
  Digest parent = keys_.root(model_id_, request.cache_salt);
  links_.push_back({parent, PrefixCache::kNoEntry});
  if (!keep_prefixes_ || !request.reuse) return 0;
  const auto size = static_cast<std::size_t>(block_size());
  const std::int64_t most = (std::ssize(request.ids) - 1) / block_size();  // the last token is computed in any case
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < most; ++i) {
    const std::span<const std::int32_t> tokens = request.ids.subspan(static_cast<std::size_t>(i) * size, size);
    const Digest key = keys_.block(parent, tokens);
    const std::int32_t entry = prefixes_.find(key, parent, tokens);
    if (entry == PrefixCache::kNoEntry) break;
    links_.push_back({key, entry});
    parent = key;
    bool restorable = true;
    for (std::size_t g = 0; g < configs_.size(); ++g) {
      runs_[g] = prefixes_.block(entry, g) == kNoBlock ? 0 : runs_[g] + 1;
      restorable = restorable && i + 1 - configs_[g].first_needed_block((i + 1) * block_size()) <= runs_[g];
    }
    if (restorable) best = i + 1;
  }
  return best;
}

Status KvCache::check_room(const OpenRequest& request, std::int64_t blocks) const {
  const std::int64_t tokens = std::ssize(request.ids) + request.room_tokens;
  PAGODA_TRY(check_capacity(tokens, request.step_tokens));
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    const std::int64_t first = configs_[g].first_needed_block(blocks * block_size());
    std::int64_t idle = 0;  // of the prefix; holding them leaves less to evict
    for (std::int64_t i = first; i < blocks; ++i) idle += pools_[g].references(prefix_block(g, i)) == 1;
    const std::int64_t missing = configs_[g].peak_blocks(tokens, request.step_tokens) - (blocks - first);
    const std::int64_t promised = request.headroom_blocks.empty() ? 0 : request.headroom_blocks[g];
    if (std::max<std::int64_t>(missing, 0) + promised > pools_[g].available() - idle) {
      return fail(ErrorCode::kCachePressure,
                  "{} tokens need {} more blocks of cache group {} beside {} promised; {} of {} can be had now", tokens,
                  missing, configs_[g].name, promised, pools_[g].available() - idle, pools_[g].total());
    }
  }
  return Ok{};
}

BlockId KvCache::prefix_block(std::size_t group, std::int64_t index) const {
  return prefixes_.block(links_[static_cast<std::size_t>(index) + 1].entry, group);
}

Result<CachedSequence> KvCache::open(const OpenRequest& request) {
  PAGODA_CHECK(!request.ids.empty() && request.room_tokens >= 0, "{} ids, room for {}", request.ids.size(),
               request.room_tokens);
  const std::int64_t blocks = find_prefix(request);
  PAGODA_TRY(check_room(request, blocks));
  CachedSequence sequence = share(blocks, configs_.front().blocks_for(request.most_tokens),
                                  [this](std::size_t group, std::int64_t i) { return prefix_block(group, i); });
  sequence.last_key_ = links_[static_cast<std::size_t>(blocks)].key;
  sequence.publish_ = request.publish;
  if (keep_prefixes_ && request.reuse) {
    const std::int64_t missed = std::ssize(request.ids) - sequence.token_len_;
    ++counters_.probes;
    counters_.hits += sequence.token_len_ > 0;
    counters_.misses += missed > 0;
    counters_.hit_tokens += sequence.token_len_;
    counters_.miss_tokens += missed;
  }
  return sequence;
}

/// All memory first: what throws for want of it leaves nothing that would have to be given back.
template <class BlockAt>
CachedSequence KvCache::share(std::int64_t blocks, std::int64_t most_blocks, BlockAt block_at) {
  std::vector<BlockTable> tables;
  tables.reserve(configs_.size());
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    tables.emplace_back(block_size()).reserve(std::max(blocks, most_blocks));
  }
  CachedSequence sequence;
  sequence.first_held_.reserve(configs_.size());
  sequence.tables_ = std::move(tables);
  sequence.token_len_ = sequence.cached_tokens_ = blocks * block_size();
  sequence.kept_blocks_ = blocks;
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    BlockTable& table = sequence.tables_[g];
    const std::int64_t first = configs_[g].first_needed_block(blocks * block_size());
    sequence.first_held_.push_back(first);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const BlockId block = i < first ? kNoBlock : block_at(g, i);
      if (i >= first) must(pools_[g].retain(block));
      table.append(block);
    }
    table.set_token_len(sequence.token_len_);
  }
  ++sequences_;
  return sequence;
}

Status KvCache::extend(CachedSequence& sequence, std::int64_t tokens) {
  PAGODA_CHECK(sequence.open() && tokens > 0, "open {}, {} tokens", sequence.open(), tokens);
  const std::int64_t token_len = sequence.token_len_ + tokens;
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    const std::int64_t held = sequence.tables_[g].block_count() - sequence.first_held_[g];
    const std::int64_t more = configs_[g].blocks_for(token_len) - sequence.tables_[g].block_count();
    if (held + more > pools_[g].total()) {
      return fail(ErrorCode::kCacheCapacity, "{} tokens need {} blocks of cache group {}, which has {}", token_len,
                  held + more, configs_[g].name, pools_[g].total());
    }
    if (more > pools_[g].available()) {
      return fail(ErrorCode::kCachePressure, "{} more tokens need {} blocks of cache group {}; {} of {} can be had now",
                  tokens, more, configs_[g].name, pools_[g].available(), pools_[g].total());
    }
  }
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    BlockTable& table = sequence.tables_[g];
    const std::int64_t more = configs_[g].blocks_for(token_len) - table.block_count();
    evict(g, more);
    for (std::int64_t i = 0; i < more; ++i) table.append(pools_[g].take());
    table.set_token_len(token_len);
  }
  sequence.token_len_ = token_len;
  return Ok{};
}

void KvCache::evict(std::size_t group, std::int64_t needed) {
  BlockPool& pool = pools_[group];
  if (pool.free() >= needed) return;
  counters_.protected_prefix_skips += pool.in_prefix_cache() - pool.cached();
  while (pool.free() < needed) counters_.evictions += prefixes_.evict_longest_idle(group, pools_);
}

void KvCache::commit(CachedSequence& sequence, std::span<const std::int32_t> ids) {
  const std::int64_t computed = std::ssize(ids);
  PAGODA_CHECK(sequence.open() && computed <= sequence.token_len_, "open {}, {} tokens committed of {}",
               sequence.open(), computed, sequence.token_len_);
  const std::int64_t full_blocks = computed / block_size();
  if (keep_prefixes_ && sequence.publish_) publish(sequence, ids, full_blocks);
  sequence.kept_blocks_ = std::max(sequence.kept_blocks_, full_blocks);
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    return_before(sequence, g, configs_[g].first_kept_block(computed));
  }
}

void KvCache::publish(CachedSequence& sequence, std::span<const std::int32_t> ids, std::int64_t full_blocks) {
  const auto size = static_cast<std::size_t>(block_size());
  for (std::int64_t i = sequence.kept_blocks_; i < full_blocks; ++i) {
    const std::span<const std::int32_t> tokens = ids.subspan(static_cast<std::size_t>(i) * size, size);
    const Digest key = keys_.block(sequence.last_key_, tokens);
    for (std::size_t g = 0; g < configs_.size(); ++g) {
      row_[g] = sequence.tables_[g].blocks()[static_cast<std::size_t>(i)];
    }
    prefixes_.publish(key, sequence.last_key_, tokens, row_, pools_);
    sequence.last_key_ = key;
  }
}

void KvCache::return_before(CachedSequence& sequence, std::size_t group, std::int64_t block) {
  BlockTable& table = sequence.tables_[group];
  std::int64_t& first = sequence.first_held_[group];
  for (; first < std::min(block, table.block_count()); ++first) {
    must_release(pools_[group], table.blocks()[static_cast<std::size_t>(first)]);
    table.replace(first, kNoBlock);
  }
}

void KvCache::release(CachedSequence& sequence) {
  if (!sequence.open()) return;
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    const std::span<const BlockId> held =
        sequence.tables_[g].blocks().subspan(static_cast<std::size_t>(sequence.first_held_[g]));
    // What is given back first is evicted first. In a full group a block is of no use without those before it; in a
    // windowed one the last are what a hit needs.
    if (configs_[g].windowed()) {
      for (const BlockId block : held) must_release(pools_[g], block);
    } else {
      for (std::size_t i = held.size(); i-- > 0;) must_release(pools_[g], held[i]);
    }
  }
  sequence.tables_.clear();
  sequence = CachedSequence();
  --sequences_;
}

CachedSequence KvCache::fork(const CachedSequence& sequence) {
  PAGODA_CHECK(sequence.open());
  CachedSequence twin = share(sequence.kept_blocks_, 0, [&](std::size_t group, std::int64_t i) {
    return sequence.tables_[group].blocks()[static_cast<std::size_t>(i)];
  });
  twin.last_key_ = sequence.last_key_;
  twin.publish_ = sequence.publish_;
  return twin;
}

void KvCache::drop_idle_prefixes() {
  for (std::size_t g = 0; g < configs_.size(); ++g) {
    while (pools_[g].cached() > 0) prefixes_.evict_longest_idle(g, pools_);
  }
}

CacheStats KvCache::stats() const {
  CacheStats stats;
  read_stats(stats);
  return stats;
}

void KvCache::read_stats(CacheStats& stats) const {
  stats.prefixes = prefixes_.size();
  stats.sequences = sequences_;
  stats.counters = counters_;
  stats.groups.resize(pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const BlockPool& pool = pools_[g];
    stats.groups[g] = {.total = pool.total(), .free = pool.free(), .live = pool.live(), .cached = pool.cached()};
  }
}

void KvCache::verify() const {
  for (const BlockPool& pool : pools_) pool.verify();
  prefixes_.verify(pools_);
}

}  // namespace pagoda::kv
