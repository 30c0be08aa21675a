// The merging loop that byte pair encoding and SentencePiece share: join the best pair of neighbours until none is
// left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pagoda::text {

/// A token in the making: the bytes [begin, begin + length) of the text; length 0 once its left neighbour has taken it.
struct Symbol {
  std::int32_t id = -1;  ///< -1: no token of its own
  std::uint32_t begin = 0;
  std::uint32_t length = 0;
  std::int32_t previous = -1;
  std::int32_t next = -1;
  std::uint32_t pair_rank = 0;  ///< of this symbol and its next
  std::int32_t pair_id = -1;    ///< what the two make; -1: nothing
};

/// What two neighbours make. The lowest rank is joined first, of equal ones the leftmost.
struct Merge {
  std::uint32_t rank = 0;
  std::int32_t id = -1;  ///< -1: nothing
};

/// Memory that one call of `encode` uses again and again.
struct MergeWorkspace {
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> queue;  ///< a heap of (rank, symbol); entries whose pair has changed are skipped
  std::string buffer;                ///< for texts to look up
};

/// Joins the symbols, linked in order, until no pair makes anything. `rule(left, right)` returns a Merge.
/// Time is O(n log n) for n symbols.
template <class Rule>
void merge_all(MergeWorkspace& work, const Rule& rule) {
  std::vector<Symbol>& symbols = work.symbols;
  std::vector<std::uint64_t>& queue = work.queue;
  const auto weigh = [&](std::int32_t left) -> bool {
    Symbol& symbol = symbols[left];
    symbol.pair_id = -1;
    if (symbol.next < 0) return false;
    const Merge merge = rule(symbol, symbols[symbol.next]);
    symbol.pair_rank = merge.rank;
    symbol.pair_id = merge.id;
    return merge.id >= 0;
  };
  const auto entry = [&](std::int32_t left) {
    return std::uint64_t{symbols[left].pair_rank} << 32 | static_cast<std::uint32_t>(left);
  };

  queue.clear();
  for (std::int32_t i = 0; i < std::ssize(symbols); ++i) {
    if (weigh(i)) queue.push_back(entry(i));
  }
  std::ranges::make_heap(queue, std::greater{});
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater{});
    const std::uint64_t best = queue.back();
    queue.pop_back();
    const auto left = static_cast<std::int32_t>(best & 0xFFFFFFFFu);
    Symbol& symbol = symbols[left];
    if (symbol.length == 0 || symbol.pair_id < 0 || symbol.pair_rank != best >> 32) continue;

    Symbol& right = symbols[symbol.next];
    symbol.id = symbol.pair_id;
    symbol.length += right.length;
    right.length = 0;
    symbol.next = right.next;
    if (symbol.next >= 0) symbols[symbol.next].previous = left;
    for (const std::int32_t changed : {symbol.previous, left}) {
      if (changed < 0 || !weigh(changed)) continue;
      queue.push_back(entry(changed));
      std::ranges::push_heap(queue, std::greater{});
    }
  }
}

}  // namespace pagoda::text
