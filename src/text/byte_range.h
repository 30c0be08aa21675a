#pragma once

#include <cstddef>

namespace pagoda::text {

/// The bytes [begin, end) of a text. Lists of ranges are sorted, do not overlap and may touch: touching ranges count
/// as one.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

}  // namespace pagoda::text
