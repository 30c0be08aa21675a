// KvCache said again in the plainest words, to hold the real one against: prefixes are whole lists of ids instead of
// hashes, lists are deques, windows are asked position by position. Slow and obvious.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/group_config.h"
#include "kv/stats.h"

namespace pagoda::kv {

class PlainCache {
 public:
  using Ids = std::vector<std::int32_t>;
  using Prefix = std::pair<std::string, Ids>;  // cache salt, and all ids up to the end of the block

  struct Sequence {
    std::string salt;
    std::vector<std::vector<BlockId>> tables;  // one a group
    std::int64_t length = 0;
    std::int64_t published = 0;  // blocks
    bool publish = true;
  };

  explicit PlainCache(std::vector<GroupConfig> groups) : configs(std::move(groups)), pools(configs.size()) {
    for (std::size_t g = 0; g < configs.size(); ++g) {
      for (BlockId b = 0; b < configs[g].block_count; ++b) pools[g].free.push_back(b);
      pools[g].references.resize(static_cast<std::size_t>(configs[g].block_count));
    }
  }

  /// Nothing if there is no room for all ids and one more.
  std::optional<Sequence> open(const Ids& ids, const std::string& salt, std::int64_t step_tokens) {
    std::int64_t blocks = (std::ssize(ids) - 1) / size();
    while (blocks > 0 && !restorable(ids, salt, blocks)) --blocks;
    for (std::size_t g = 0; g < configs.size(); ++g) {
      std::int64_t held = 0, idle = 0;
      for (std::int64_t i = 0; i < blocks; ++i) {
        if (!needed(g, i, blocks * size())) continue;
        ++held;
        idle += is_idle(g, kept.at(prefix(ids, salt, i))[g]);
      }
      const std::int64_t missing = configs[g].peak_blocks(std::ssize(ids) + 1, step_tokens) - held;
      if (std::max<std::int64_t>(missing, 0) > available(g) - idle) return std::nullopt;
    }
    Sequence out{.salt = salt, .tables = {}, .length = blocks * size(), .published = blocks};
    for (std::size_t g = 0; g < configs.size(); ++g) {
      std::vector<BlockId>& table = out.tables.emplace_back();
      for (std::int64_t i = 0; i < blocks; ++i) {
        const bool take = needed(g, i, blocks * size());
        table.push_back(take ? kept.at(prefix(ids, salt, i))[g] : kNoBlock);
        if (take) retain(g, table.back());
      }
    }
    ++counters.probes;
    counters.hits += out.length > 0;
    ++counters.misses;
    counters.hit_tokens += out.length;
    counters.miss_tokens += std::ssize(ids) - out.length;
    return out;
  }

  bool extend(Sequence& sequence, std::int64_t tokens) {
    const std::int64_t blocks = (sequence.length + tokens + size() - 1) / size();
    for (std::size_t g = 0; g < configs.size(); ++g) {
      if (blocks - std::ssize(sequence.tables[g]) > available(g)) return false;
    }
    for (std::size_t g = 0; g < configs.size(); ++g) {
      const std::int64_t more = blocks - std::ssize(sequence.tables[g]);
      if (more > std::ssize(pools[g].free)) counters.protected_prefix_skips += held_and_kept(g);
      while (more > std::ssize(pools[g].free)) evict(g, pools[g].idle.front());
      while (std::ssize(sequence.tables[g]) < blocks) {
        sequence.tables[g].push_back(pools[g].free.front());
        pools[g].free.pop_front();
        references(g, sequence.tables[g].back()) = 1;
      }
    }
    sequence.length += tokens;
    return true;
  }

  void commit(Sequence& sequence, const Ids& ids) {
    for (; (sequence.published + 1) * size() <= std::ssize(ids); ++sequence.published) {
      if (!sequence.publish) continue;
      std::vector<BlockId>& entry =
          kept.try_emplace(prefix(ids, sequence.salt, sequence.published), configs.size(), kNoBlock).first->second;
      for (std::size_t g = 0; g < configs.size(); ++g) {
        const BlockId mine = sequence.tables[g][static_cast<std::size_t>(sequence.published)];
        if (entry[g] == mine) continue;
        if (entry[g] != kNoBlock) forget(g, entry[g]);
        entry[g] = mine;
        retain(g, mine);
      }
    }
    for (std::size_t g = 0; g < configs.size(); ++g) {
      for (std::int64_t i = 0; i < std::ssize(sequence.tables[g]); ++i) {
        BlockId& block = sequence.tables[g][static_cast<std::size_t>(i)];
        if (block == kNoBlock || needed(g, i, sequence.published * size())) continue;
        release_block(g, block);
        block = kNoBlock;
      }
    }
  }

  Sequence fork(const Sequence& parent) {
    const std::int64_t blocks = parent.published;
    Sequence twin{
        .salt = parent.salt, .tables = {}, .length = blocks * size(), .published = blocks, .publish = parent.publish};
    for (std::size_t g = 0; g < configs.size(); ++g) {
      std::vector<BlockId>& table = twin.tables.emplace_back();
      for (std::int64_t i = 0; i < blocks; ++i) {
        const bool take = needed(g, i, blocks * size());
        table.push_back(take ? parent.tables[g][static_cast<std::size_t>(i)] : kNoBlock);
        if (take) retain(g, table.back());
      }
    }
    return twin;
  }

  void release(Sequence& sequence) {
    for (std::size_t g = 0; g < configs.size(); ++g) {
      std::vector<BlockId>& table = sequence.tables[g];
      if (configs[g].window == 0) std::ranges::reverse(table);
      for (const BlockId block : table) {
        if (block != kNoBlock) release_block(g, block);
      }
    }
    sequence.tables.clear();
  }

  void drop_idle() {
    for (std::size_t g = 0; g < configs.size(); ++g) {
      while (!pools[g].idle.empty()) evict(g, pools[g].idle.front(), false);
    }
  }

  GroupUsage usage(std::size_t g) const {
    GroupUsage out{.total = configs[g].block_count};
    for (const int references : pools[g].references) out.free += references == 0;
    out.cached = std::ssize(pools[g].idle);
    out.live = out.total - out.free - out.cached;
    return out;
  }

  int references_of(std::size_t g, BlockId block) const { return pools[g].references[static_cast<std::size_t>(block)]; }

  /// By the definition: does a query at `position` or later see a token of block `index`?
  bool needed(std::size_t g, std::int64_t index, std::int64_t position) const {
    const std::int64_t last_token = (index + 1) * size() - 1;
    return configs[g].window == 0 || position - last_token < configs[g].window;
  }

  std::vector<GroupConfig> configs;
  std::map<Prefix, std::vector<BlockId>> kept;
  PrefixCounters counters;

 private:
  struct Pool {
    std::deque<BlockId> free;
    std::deque<BlockId> idle;  // held by the prefix cache alone, longest first
    std::vector<int> references;
  };

  std::int64_t size() const { return configs.front().block_size; }
  int& references(std::size_t g, BlockId block) { return pools[g].references[static_cast<std::size_t>(block)]; }
  std::int64_t available(std::size_t g) const { return std::ssize(pools[g].free) + std::ssize(pools[g].idle); }

  Prefix prefix(const Ids& ids, const std::string& salt, std::int64_t index) const {
    return {salt, Ids(ids.begin(), ids.begin() + (index + 1) * size())};
  }

  bool restorable(const Ids& ids, const std::string& salt, std::int64_t blocks) const {
    for (std::int64_t i = 0; i < blocks; ++i) {
      const auto entry = kept.find(prefix(ids, salt, i));
      if (entry == kept.end()) return false;
      for (std::size_t g = 0; g < configs.size(); ++g) {
        if (entry->second[g] == kNoBlock && needed(g, i, blocks * size())) return false;
      }
    }
    return true;
  }

  std::map<Prefix, std::vector<BlockId>>::iterator entry_of(std::size_t g, BlockId block) {
    return std::ranges::find_if(kept, [&](const auto& item) { return item.second[g] == block; });
  }
  bool is_kept(std::size_t g, BlockId block) { return entry_of(g, block) != kept.end(); }
  bool is_idle(std::size_t g, BlockId block) const { return std::ranges::count(pools[g].idle, block) > 0; }

  std::int64_t held_and_kept(std::size_t g) const {
    std::int64_t count = 0;
    for (const auto& [prefix, blocks] : kept) count += blocks[g] != kNoBlock && references_of(g, blocks[g]) > 1;
    return count;
  }

  void retain(std::size_t g, BlockId block) {
    std::erase(pools[g].idle, block);
    ++references(g, block);
  }

  void release_block(std::size_t g, BlockId block) {
    if (--references(g, block) == 0) pools[g].free.push_back(block);
    if (references(g, block) == 1 && is_kept(g, block)) pools[g].idle.push_back(block);
  }

  void forget(std::size_t g, BlockId block) {  // the prefix cache's own reference
    std::erase(pools[g].idle, block);
    if (--references(g, block) == 0) pools[g].free.push_back(block);
  }

  void evict(std::size_t g, BlockId block, bool counted = true) {
    const auto entry = entry_of(g, block);
    forget(g, block);
    entry->second[g] = kNoBlock;
    counters.evictions += counted;
    const bool dead = configs[g].window == 0 || std::ranges::count(entry->second, kNoBlock) == std::ssize(configs);
    if (!dead) return;
    for (std::size_t other = 0; other < configs.size(); ++other) {
      if (entry->second[other] == kNoBlock) continue;
      forget(other, entry->second[other]);
      counters.evictions += counted;
    }
    kept.erase(entry);
  }

  std::vector<Pool> pools;
};

}  // namespace pagoda::kv
