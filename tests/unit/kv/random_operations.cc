#include "unit/kv/random_operations.h"

#include <gtest/gtest.h>

namespace pagoda::kv {

namespace {

constexpr std::int64_t kStepTokens = 7;

CacheConfig config_of(std::vector<GroupConfig> groups) {
  return {.groups = std::move(groups), .model_id = "model", .salt = "fixed"};
}

/// What a page's slot holds after token ids.back(): everything that its keys and values depend on.
std::uint64_t content(const std::string& salt, const PlainCache::Ids& ids, std::int64_t position) {
  std::uint64_t hash = std::hash<std::string>()(salt);
  for (std::int64_t i = 0; i <= position; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(ids[static_cast<std::size_t>(i)] + 1)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

RandomOperations::RandomOperations(std::vector<GroupConfig> groups, std::uint32_t seed)
    : cache_(KvCache::create(config_of(groups)).value()), plain_(std::move(groups)), random_(seed) {
  for (const GroupConfig& group : plain_.configs) {
    pages_.emplace_back(static_cast<std::size_t>(group.block_count * group.block_size));
  }
}

RandomOperations::~RandomOperations() {
  for (Life& life : lives_) cache_.release(life.real);
}

bool RandomOperations::step() {
  const std::int64_t choice = below(100);
  if (lives_.empty() || choice < 14) {
    open();
  } else {
    const auto index = static_cast<std::size_t>(below(std::ssize(lives_)));
    Life& life = lives_[index];
    if (choice < 50) {
      extend(life);
    } else if (choice < 84) {
      compute(life);
    } else if (choice < 88) {
      fork(life);
    } else if (choice < 99 || below(20) > 0) {
      release(index);
    } else {
      cache_.drop_idle_prefixes();
      plain_.drop_idle();
      ++tally_.dropped;
    }
  }
  compare();
  return !::testing::Test::HasFailure();
}

void RandomOperations::open() {
  // Few ids and few families of prompts, so that prefixes meet; lengths of every remainder.
  PlainCache::Ids ids(static_cast<std::size_t>(1 + below(29)));
  const std::int64_t family = below(3);
  const std::int64_t own_from = below(std::ssize(ids) + 12);
  for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
    ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i < own_from ? (i * 7 + family) % 5 : below(3));
  }
  const std::string salt = below(4) == 0 ? "other" : "";
  Result<CachedSequence> real = cache_.open({.ids = ids, .cache_salt = salt, .step_tokens = kStepTokens});
  std::optional<PlainCache::Sequence> plain = plain_.open(ids, salt, kStepTokens);
  ASSERT_EQ(real.ok(), plain.has_value());
  if (!plain) {
    EXPECT_EQ(real.error().code, ErrorCode::kCachePressure);
    ++tally_.refused;
    return;
  }
  ++tally_.opened;
  tally_.hits += plain->length > 0;
  EXPECT_EQ(real->cached_tokens(), plain->length);
  lives_.push_back({std::move(real).value(), std::move(*plain), std::move(ids), 0});
  lives_.back().computed = lives_.back().plain.length;
}

/// Composes a step: a chunk of what is known, or one more id. Steps may be composed before others are computed.
void RandomOperations::extend(Life& life) {
  std::int64_t count = std::min(1 + below(kStepTokens), std::ssize(life.ids) - life.plain.length);
  if (count == 0) {
    life.ids.push_back(static_cast<std::int32_t>(below(3)));
    count = 1;
  }
  if (life.plain.length + count - life.computed > kStepTokens) return compute(life);
  const Status real = cache_.extend(life.real, count);
  ASSERT_EQ(real.ok(), plain_.extend(life.plain, count));
  real.ok() ? ++tally_.extended : ++tally_.pressed;
}

/// A step runs: writes its tokens into the pages, looks at all that its queries see, and is committed.
void RandomOperations::compute(Life& life) {
  if (life.computed == life.plain.length) return;
  const std::int64_t end = life.computed + 1 + below(life.plain.length - life.computed);
  for (std::size_t g = 0; g < pages_.size(); ++g) {
    const BlockTable& table = life.real.table(g);
    const auto slot = [&](std::int64_t position) {
      const BlockId block = table.blocks()[static_cast<std::size_t>(position / cache_.block_size())];
      EXPECT_NE(block, kNoBlock) << "group " << g << " lost position " << position << " of " << end;
      return static_cast<std::size_t>(slot_index(block == kNoBlock ? 0 : block, cache_.block_size(), position));
    };
    for (std::int64_t p = life.computed; p < end; ++p) pages_[g][slot(p)] = content(life.plain.salt, life.ids, p);
    for (std::int64_t p = first_visible(g, life.computed); p < end; ++p) {
      EXPECT_EQ(pages_[g][slot(p)], content(life.plain.salt, life.ids, p)) << "group " << g << ", position " << p;
    }
  }
  life.computed = end;
  commit(life);
}

std::int64_t RandomOperations::first_visible(std::size_t group, std::int64_t position) const {
  const std::int64_t window = plain_.configs[group].window;
  return window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1);
}

void RandomOperations::commit(Life& life) {
  const PlainCache::Ids ids(life.ids.begin(), life.ids.begin() + life.computed);
  cache_.commit(life.real, ids);
  plain_.commit(life.plain, ids);
  ++tally_.committed;
}

void RandomOperations::fork(const Life& life) {
  if (lives_.size() > 12) return;
  Life twin{cache_.fork(life.real), plain_.fork(life.plain), life.ids, 0};
  twin.computed = twin.plain.length;
  lives_.push_back(std::move(twin));
  ++tally_.forked;
}

void RandomOperations::release(std::size_t index) {
  cache_.release(lives_[index].real);
  plain_.release(lives_[index].plain);
  lives_.erase(lives_.begin() + static_cast<std::ptrdiff_t>(index));
  ++tally_.released;
}

void RandomOperations::compare() {
  cache_.verify();
  const CacheStats stats = cache_.stats();
  EXPECT_EQ(stats.counters, plain_.counters);
  EXPECT_EQ(stats.prefixes, std::ssize(plain_.kept));
  EXPECT_EQ(stats.sequences, std::ssize(lives_));
  for (std::size_t g = 0; g < pages_.size(); ++g) {
    const GroupUsage& usage = stats.groups[g];
    EXPECT_EQ(usage, plain_.usage(g)) << "group " << g;
    EXPECT_EQ(usage.free + usage.live + usage.cached, usage.total);
    for (BlockId block = 0; block < usage.total; ++block) {
      EXPECT_EQ(static_cast<int>(cache_.pool(g).references(block)), plain_.references_of(g, block))
          << "block " << block;
    }
  }
  for (const Life& life : lives_) compare_tables(life);
}

void RandomOperations::compare_tables(const Life& life) {
  EXPECT_EQ(life.real.token_len(), life.plain.length);
  for (std::size_t g = 0; g < pages_.size(); ++g) {
    const std::span<const BlockId> blocks = life.real.table(g).blocks();
    EXPECT_EQ(std::vector<BlockId>(blocks.begin(), blocks.end()), life.plain.tables[g]) << "group " << g;
    EXPECT_EQ(life.real.table(g).token_len(), life.plain.length);
  }
}

bool RandomOperations::drain() {
  while (!lives_.empty()) release(lives_.size() - 1);
  compare();
  for (const GroupUsage& usage : cache_.stats().groups) EXPECT_EQ(usage.live, 0);
  cache_.drop_idle_prefixes();
  for (const GroupUsage& usage : cache_.stats().groups) EXPECT_EQ(usage.free, usage.total);
  return !::testing::Test::HasFailure();
}

}  // namespace pagoda::kv
