#include "io/byte_source.h"

#include <cstring>

#include "base/check.h"

namespace pagoda::io {

Status MemorySource::read(std::uint64_t offset, std::span<std::byte> into) const {
  PAGODA_CHECK(offset <= bytes_.size() && into.size() <= bytes_.size() - offset, "offset {} bytes {} size {}", offset,
               into.size(), bytes_.size());
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
  return Ok{};
}

}  // namespace pagoda::io
