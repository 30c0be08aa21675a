// What one step computes: rows of tokens, where their keys and values go, what they read, and what is wanted of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/group_config.h"
#include "sched/request.h"

namespace pagoda::sched {

/// No id: nothing follows, or it is not known yet.
inline constexpr std::int32_t kNoToken = -1;

/// Consecutive tokens of one sequence. Decode is a row of one token.
struct Row {
  std::int32_t slot = 0;  ///< 0 … max_running - 1; all per-sequence state of the runner lives there
  SequenceId sequence = 0;
  std::int64_t start = 0;           ///< absolute position of the first token
  std::int32_t count = 0;           ///< q ≥ 1 tokens
  std::int64_t token_offset = 0;    ///< of the first token in Batch::tokens, targets and write slots
  bool wants_id = false;            ///< an id is to be drawn from the last token's logits
  bool first_id_on_device = false;  ///< the first token is what the previous step drew for this slot (tokens says
                                    ///< kNoToken); only when two steps are in flight
  Want want = Want::kNothing;
  std::int32_t want_from = 0;  ///< `want` holds for tokens [want_from, want_to) of the row; none if they are equal
  std::int32_t want_to = 0;

  std::int64_t end() const { return start + count; }  ///< keys that the last token sees in a full group
};

/// A slot whose owner is new: the runner has to set it up before the step runs.
struct Admission {
  std::int32_t slot = 0;
  SequenceId sequence = 0;
  RequestId request = 0;
  std::int32_t choice = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< found in the prefix cache: the first row starts there
  bool resumed = false;            ///< it ran before and was preempted: ids drawn so far count as output
};

/// Lent by Scheduler::next until the step is completed. The vectors keep their memory from step to step.
struct Batch {
  /// What concerns one cache group. Row r's blocks are block_tables[table_begin[r] … table_begin[r + 1]), by logical
  /// index from position 0; kNoBlock where the window has passed. write_slots has one entry a token: block · block size
  /// + place in the block, in tokens of one layer's pages, 64-bit.
  struct Group {
    std::vector<kv::BlockId> block_tables;
    std::vector<std::int64_t> table_begin;  // rows + 1
    std::vector<std::int64_t> write_slots;
  };

  std::int64_t step = 0;  ///< ascending by one
  std::vector<Row> rows;  ///< decodes, then prefills; no sequence twice
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t>
      targets;                      ///< the id after each token, where kPromptLogprobs are wanted of it; else kNoToken
  std::vector<Group> groups;        ///< as KvCache::groups()
  std::vector<Admission> admitted;  ///< in no order with the rows; a sequence may get its first row in a later step

  std::span<const std::int32_t> row_tokens(const Row& row) const {
    return std::span(tokens).subspan(static_cast<std::size_t>(row.token_offset), static_cast<std::size_t>(row.count));
  }
  std::span<const kv::BlockId> block_table(std::size_t row, std::size_t group) const {
    const Group& part = groups[group];
    const auto begin = static_cast<std::size_t>(part.table_begin[row]);
    return std::span(part.block_tables).subspan(begin, static_cast<std::size_t>(part.table_begin[row + 1]) - begin);
  }
  std::span<const std::int64_t> write_slots(const Row& row, std::size_t group) const {
    return std::span(groups[group].write_slots)
        .subspan(static_cast<std::size_t>(row.token_offset), static_cast<std::size_t>(row.count));
  }
  /// How many ids the step draws: one for each row that wants one, in row order.
  std::int64_t num_ids() const;

  /// Takes all memory at once: `max_blocks` in each group for all rows' tables together.
  void reserve(std::int64_t max_rows, std::int64_t max_tokens, std::int64_t max_blocks);

  void clear();  ///< empties every vector, keeps the memory and the number of groups
};

}  // namespace pagoda::sched
