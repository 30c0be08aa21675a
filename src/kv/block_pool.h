#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kv/group_config.h"

namespace pagoda::kv {

/// The blocks of one cache group, counted. Each is in exactly one state:
///
///   free    no reference                                  in the free list, oldest first
///   live    held by at least one sequence                 in no list
///   cached  held by the prefix cache alone (1 reference)  in the idle list, longest idle first; may be evicted
///
/// free + live + cached = total, always. All memory is taken at construction.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t block_count);

  std::int64_t total() const { return std::ssize(blocks_); }
  std::int64_t free() const { return free_.size; }
  std::int64_t cached() const { return idle_.size; }
  std::int64_t live() const { return total() - free() - cached(); }
  std::int64_t in_prefix_cache() const { return in_prefix_cache_; }  ///< cached, or live and in the prefix cache too
  std::int64_t available() const { return free() + cached(); }       ///< what can be had by evicting all that is idle

  /// Takes the block that has been free longest, with one reference. There must be one.
  BlockId take();

  /// One more holder. Error (kInternal): unknown id, a free block, a count that would overflow.
  Status retain(BlockId block);

  /// One holder less; true if that freed the block. Error (kInternal): unknown id, or free already.
  Result<bool> release(BlockId block);

  /// The prefix cache's own reference to a block that a sequence holds, kept under one of its entries.
  void add_to_prefix_cache(BlockId block, std::int32_t entry);
  void remove_from_prefix_cache(BlockId block);

  BlockId longest_idle() const { return idle_.head; }  ///< kNoBlock if none
  std::int32_t entry_of(BlockId block) const { return at(block).entry; }
  std::uint32_t references(BlockId block) const { return at(block).references; }
  bool contains(BlockId block) const { return block >= 0 && block < total(); }

  /// Walks both lists and all counts; aborts if any two disagree. For tests and debug builds; O(total).
  void verify() const;

 private:
  static constexpr std::int32_t kNoEntry = -1;

  struct Block {
    std::uint32_t references = 0;
    std::int32_t entry = kNoEntry;  // of the prefix cache
    BlockId previous = kNoBlock;    // in the list of its state
    BlockId next = kNoBlock;
  };
  struct List {
    BlockId head = kNoBlock;
    BlockId tail = kNoBlock;
    std::int64_t size = 0;
  };

  Block& at(BlockId block);
  const Block& at(BlockId block) const;
  bool idle(const Block& block) const { return block.references == 1 && block.entry != kNoEntry; }
  void push_back(List& list, BlockId block);
  void remove(List& list, BlockId block);

  std::vector<Block> blocks_;
  List free_;
  List idle_;
  std::int64_t in_prefix_cache_ = 0;
};

}  // namespace pagoda::kv
