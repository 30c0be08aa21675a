#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/merge_queue.h"
#include "text/vocabulary.h"

namespace pagoda::text {

/// The algorithm of one kind of vocabulary, over text between the tokens that stand apart. Immutable.
class FragmentEncoder {
 public:
  virtual ~FragmentEncoder() = default;

  /// Adds the ids of `text`, which is not empty, to `out`.
  virtual Status encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const = 0;
};

/// Adds the token of each byte, for text that no token covers; without them one unknown token. Neither: an error.
Status encode_bytes(const Vocabulary& vocabulary, std::string_view bytes, std::vector<std::int32_t>& out);

}  // namespace pagoda::text
