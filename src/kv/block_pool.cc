#include "kv/block_pool.h"

#include <limits>

#include "base/check.h"

namespace pagoda::kv {

BlockPool::BlockPool(std::int64_t block_count) {
  PAGODA_CHECK(block_count > 0 && block_count <= std::numeric_limits<BlockId>::max(), "block_count {}", block_count);
  blocks_.resize(static_cast<std::size_t>(block_count));
  for (BlockId block = 0; block < block_count; ++block) push_back(free_, block);
}

BlockPool::Block& BlockPool::at(BlockId block) {
  PAGODA_CHECK(contains(block), "block {} of {}", block, total());
  return blocks_[static_cast<std::size_t>(block)];
}

const BlockPool::Block& BlockPool::at(BlockId block) const { return const_cast<BlockPool*>(this)->at(block); }

void BlockPool::push_back(List& list, BlockId block) {
  Block& record = at(block);
  record.previous = list.tail;
  record.next = kNoBlock;
  (list.tail == kNoBlock ? list.head : at(list.tail).next) = block;
  list.tail = block;
  ++list.size;
}

void BlockPool::remove(List& list, BlockId block) {
  Block& record = at(block);
  (record.previous == kNoBlock ? list.head : at(record.previous).next) = record.next;
  (record.next == kNoBlock ? list.tail : at(record.next).previous) = record.previous;
  record.previous = record.next = kNoBlock;
  --list.size;
}

BlockId BlockPool::take() {
  const BlockId block = free_.head;
  PAGODA_CHECK(block != kNoBlock, "no block of {} is free", total());
  remove(free_, block);
  at(block).references = 1;
  return block;
}

Status BlockPool::retain(BlockId block) {
  if (!contains(block)) return fail(ErrorCode::kInternal, "block {} is retained, but there are {}", block, total());
  Block& record = at(block);
  if (record.references == 0) return fail(ErrorCode::kInternal, "block {} is retained, but it is free", block);
  if (record.references == std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::kInternal, "block {} has {} references already", block, record.references);
  }
  if (idle(record)) remove(idle_, block);
  ++record.references;
  return Ok{};
}

Result<bool> BlockPool::release(BlockId block) {
  if (!contains(block)) return fail(ErrorCode::kInternal, "block {} is released, but there are {}", block, total());
  Block& record = at(block);
  if (record.references == 0) return fail(ErrorCode::kInternal, "block {} is released, but it is free", block);
  if (idle(record)) {
    return fail(ErrorCode::kInternal, "block {} is released, but only the prefix cache holds it", block);
  }
  --record.references;
  if (idle(record)) push_back(idle_, block);
  if (record.references > 0) return false;
  push_back(free_, block);
  return true;
}

void BlockPool::add_to_prefix_cache(BlockId block, std::int32_t entry) {
  Block& record = at(block);
  PAGODA_CHECK(record.references > 0 && record.entry == kNoEntry && entry >= 0, "block {}: {} references, entry {}, {}",
               block, record.references, record.entry, entry);
  record.entry = entry;
  ++record.references;
  ++in_prefix_cache_;
}

void BlockPool::remove_from_prefix_cache(BlockId block) {
  Block& record = at(block);
  PAGODA_CHECK(record.entry != kNoEntry, "block {} is in no prefix", block);
  if (idle(record)) remove(idle_, block);
  record.entry = kNoEntry;
  --record.references;
  --in_prefix_cache_;
  if (record.references == 0) push_back(free_, block);
}

void BlockPool::verify() const {
  std::int64_t free_blocks = 0, idle_blocks = 0, in_cache = 0;
  for (const Block& block : blocks_) {
    free_blocks += block.references == 0;
    idle_blocks += idle(block);
    in_cache += block.entry != kNoEntry;
    PAGODA_CHECK(block.references > 0 || block.entry == kNoEntry, "a free block is in entry {}", block.entry);
  }
  PAGODA_CHECK(free_blocks == free() && idle_blocks == cached() && in_cache == in_prefix_cache_,
               "free {} {}, idle {} {}, in the prefix cache {} {}", free_blocks, free(), idle_blocks, cached(),
               in_cache, in_prefix_cache_);
  for (const List* list : {&free_, &idle_}) {
    std::int64_t size = 0;
    BlockId last = kNoBlock;
    for (BlockId block = list->head; block != kNoBlock && size <= list->size; block = at(block).next) {
      const Block& record = at(block);
      PAGODA_CHECK(list == &free_ ? record.references == 0 : idle(record), "block {} is in the wrong list", block);
      PAGODA_CHECK(record.previous == last, "block {} follows {}, not {}", block, last, record.previous);
      last = block;
      ++size;
    }
    PAGODA_CHECK(size == list->size && last == list->tail, "a list of {} blocks says {}", size, list->size);
  }
}

}  // namespace pagoda::kv
