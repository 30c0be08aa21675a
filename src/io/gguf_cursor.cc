#include "io/gguf_cursor.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pagoda::io {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie");

GgufCursor::GgufCursor(const ByteSource& source, std::uint64_t max_bytes)
    : source_(source), end_(std::min(source.size(), max_bytes)) {}

Result<std::uint64_t> GgufCursor::count(ErrorCode code, std::string_view things, std::uint64_t least_bytes,
                                        std::uint64_t most) {
  const auto count = PAGODA_TRY(number<std::uint64_t>());
  if (count > most) return fail_here(code, "it claims {} {}; at most {} are allowed", count, things, most);
  if (count > left() / least_bytes) {
    return fail_here(code, "it claims {} {} of at least {} bytes, but {}", count, things, least_bytes, bytes_left());
  }
  return count;
}

Result<std::string> GgufCursor::string(ErrorCode code, std::string_view what, std::uint64_t most) {
  const auto length = PAGODA_TRY(number<std::uint64_t>());
  if (length > left())
    return fail_here(ErrorCode::kGgufStringLength, "{} claims {} bytes, but {}", what, length, bytes_left());
  if (length > most) return fail_here(code, "{} is {} bytes long; at most {} are allowed", what, length, most);
  std::string text(length, '\0');
  PAGODA_TRY(read(std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

Status GgufCursor::read(std::span<std::byte> into) {
  if (into.size() > left()) return truncated(into.size());
  while (!into.empty()) {
    const bool inside = offset_ >= window_begin_ && offset_ - window_begin_ < window_.size();
    if (!inside) PAGODA_TRY(fill());
    const std::uint64_t begin = offset_ - window_begin_;
    const std::size_t take = std::min<std::uint64_t>(into.size(), window_.size() - begin);
    std::memcpy(into.data(), window_.data() + begin, take);
    into = into.subspan(take);
    offset_ += take;
  }
  return Ok{};
}

void GgufCursor::skip(std::uint64_t bytes) {
  PAGODA_CHECK(bytes <= left(), "{} of {}", bytes, left());
  offset_ += bytes;
}

Status GgufCursor::fill() {
  constexpr std::uint64_t kWindowBytes = 1u << 18;
  window_.resize(std::min(kWindowBytes, left()));
  window_begin_ = offset_;
  return source_.read(offset_, window_);
}

Error GgufCursor::located(ErrorCode code, const std::string& sentence) const {
  return fail(code, "{}: {} at offset {}: {}", source_.name(), part_, offset_, sentence);
}

Error GgufCursor::truncated(std::uint64_t wanted) const {
  return fail_here(ErrorCode::kGgufTruncated, "{} bytes are needed, but {}", wanted, bytes_left());
}

std::string GgufCursor::bytes_left() const {
  if (end_ < source_.size()) return pagoda::format("only {} are left of the {} that a header may have", left(), end_);
  return pagoda::format("only {} are left in the file", left());
}

}  // namespace pagoda::io
