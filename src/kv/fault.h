// The named faults of tables and write plans: what a kernel would read or write wrongly if it were launched.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace pagoda::kv {

enum class Fault : std::uint8_t {
  kBlockSizeUnset,      ///< the table has no block size
  kBlockSizeDiffers,    ///< table or plan and their group disagree
  kGroupDiffers,        ///< the plan is for another cache group
  kBlockOutOfRange,     ///< a block id outside the group's pool
  kBlockMissing,        ///< a token that is read or written has no block
  kTableEmpty,          ///< no blocks at all
  kTableTooLong,        ///< more blocks than the step was prepared for
  kLengthZero,          ///< token_len = 0
  kLengthOverCapacity,  ///< token_len > blocks · block size
  kLengthDiffers,       ///< token_len is not start + count
  kCountZero,           ///< a row or chunk of no tokens
  kCountNotOne,         ///< a decode step of other than one token
  kCountDiffers,        ///< the plan's count is not the chunk's
  kWritesNotOne,        ///< a decode step of other than one write
  kWrittenDiffers,      ///< the table was too short for the tokens to be written
  kPageRange,           ///< a write begins or ends outside its page
  kPositionOverflow,    ///< start + count does not fit in 64 bits, or is negative
  kBatchEmpty,
  kTooManyRows,
  kTooManyTokens,
  kVectorsDiffer,  ///< the flat vectors of a batch disagree in length
};

/// "block_size_unset" and so on; the first word of each fault's message.
std::string_view to_string(Fault fault);

/// An error (kInternal) whose message is the fault's name, a colon and the sentence with the values.
template <class... Args>
Error fault_error(Fault fault, fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::kInternal, "{}: {}", to_string(fault), pagoda::format(text, std::forward<Args>(args)...));
}

}  // namespace pagoda::kv
