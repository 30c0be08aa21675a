// What a step's kernels read beside activations: flat arrays at fixed addresses of the device's memory, rewritten
// before each step, so that a captured step is replayed without touching a launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pagoda::kernels {

/// The part of a step that belongs to one cache group.
struct GroupInputs {
  const std::int32_t* block_tables = nullptr;  ///< (rows, max_blocks) page ids by logical block; -1: returned or none
  std::int64_t max_blocks = 0;                 ///< columns of block_tables
  const std::int64_t* write_slots = nullptr;   ///< (tokens) page id · block size + slot; -1: this token writes nothing

  // Of GPUs.
  std::byte* work = nullptr;            ///< what the attention schedule makes for the group's layers
  const void* prefill_items = nullptr;  ///< (num_prefill_items) pieces of rows of several tokens, longest past first
  std::int64_t num_prefill_items = 0;
};

/// A batch: `num_rows` rows, each q ≥ 0 consecutive tokens of one sequence. Row r's tokens are row_offsets[r] …
/// row_offsets[r + 1] of every per-token array; its first token is key number row_starts[r] of its sequence. Tokens
/// from row_offsets[num_rows] on are padding: what is computed for them is never used, and they write no key.
struct StepInputs {
  std::int64_t num_tokens = 0;  ///< rows of the activations, padding included
  std::int64_t num_rows = 0;
  const std::int64_t* positions = nullptr;    ///< (tokens) for RoPE
  const std::int64_t* row_offsets = nullptr;  ///< (rows + 1)
  const std::int64_t* row_starts = nullptr;   ///< (rows)
  std::int64_t num_single_rows = 0;           ///< rows of one token
};

}  // namespace pagoda::kernels
