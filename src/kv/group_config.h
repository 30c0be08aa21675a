// What the cache knows of a cache group: numbers, never tensors. And the arithmetic of blocks and windows on them.
#pragma once

#include <cstdint>
#include <string>

#include "base/checked.h"

namespace pagoda::kv {

/// A page of one cache group. The same id names the same page in every layer of its group, and nothing in another.
using BlockId = std::int32_t;

/// An entry of a block table without a page: not needed any more, or never taken. Never an index.
inline constexpr BlockId kNoBlock = -1;

/// The layers of a model that keep their past in the same pages.
struct GroupConfig {
  std::string name{};                ///< for messages: "full", "window 512"
  std::int32_t block_size = 16;      ///< tokens in a block
  std::int64_t block_count = 0;      ///< blocks of the group, 1 … 2^31 - 1
  std::int64_t bytes_per_block = 0;  ///< of all its layers together, keys and values
  std::int64_t window = 0;           ///< a query sees itself and the window - 1 tokens before it; 0: all before it
  std::int32_t num_layers = 0;

  bool windowed() const { return window > 0; }

  /// Blocks that hold `tokens` tokens from position 0 on.
  std::int64_t blocks_for(std::int64_t tokens) const { return ceil_div<std::int64_t>(tokens, block_size); }

  /// Index in the block table of the first block that a query at `position` reads.
  std::int64_t first_needed_block(std::int64_t position) const {
    const std::int64_t first_key = windowed() && position >= window ? position - window + 1 : 0;
    return first_key / block_size;
  }

  /// Index of the first block that a sequence with `computed` tokens keeps: what a query at its last block border
  /// needs, so that another sequence can go on from there. For a decode that is not one block more than its query
  /// reads.
  std::int64_t first_kept_block(std::int64_t computed) const {
    return first_needed_block(computed / block_size * block_size);
  }

  /// The most blocks a sequence of `tokens` tokens holds at once while steps of at most `step_tokens` are in flight.
  std::int64_t peak_blocks(std::int64_t tokens, std::int64_t step_tokens) const {
    const std::int64_t all = blocks_for(tokens);
    if (!windowed()) return all;
    const std::int64_t before_border = blocks_for(window - 1);
    const std::int64_t from_border = blocks_for(block_size - 1 + step_tokens);  // the step may begin late in its block
    return before_border + from_border < all ? before_border + from_border : all;
  }
};

/// Where a token lies in the pages of one layer, counted in tokens. Always 64-bit: a pool may hold more than 2^31.
constexpr std::int64_t slot_index(BlockId block, std::int32_t block_size, std::int64_t position) {
  return static_cast<std::int64_t>(block) * block_size + position % block_size;
}

}  // namespace pagoda::kv
