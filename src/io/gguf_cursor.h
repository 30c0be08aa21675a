#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/byte_source.h"

namespace pagoda::io {

/// Reads a GGUF header from front to back through a small window, and never past the end of the file or of what a
/// header may be. Every failure names the file, the part being read and the offset.
class GgufCursor {
 public:
  GgufCursor(const ByteSource& source, std::uint64_t max_bytes);

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return end_ - offset_; }

  /// What is being read, for messages: "key 'general.name'".
  void set_part(std::string part) { part_ = std::move(part); }

  /// The next bytes as a little-endian number.
  template <class T>
  Result<T> number() {
    T value;
    const std::uint64_t begin = offset_ - window_begin_;  // the usual case first: a vocabulary has half a million
    if (begin < window_.size() && window_.size() - begin >= sizeof value) {
      std::memcpy(&value, window_.data() + begin, sizeof value);
      offset_ += sizeof value;
      return value;
    }
    PAGODA_TRY(read(std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  /// A 64-bit count of things that take at least `least_bytes` each: at most `most`, and no more than can still follow.
  Result<std::uint64_t> count(ErrorCode code, std::string_view things, std::uint64_t least_bytes, std::uint64_t most);

  /// A string's length and its bytes.
  Result<std::string> string(ErrorCode code, std::string_view what, std::uint64_t most);

  Status read(std::span<std::byte> into);
  /// Past bytes of which `left()` has said that they are there.
  void skip(std::uint64_t bytes);
  /// Back to an offset where the cursor has been.
  void rewind(std::uint64_t offset) { offset_ = offset; }

  /// An error about the part that is being read.
  template <class... Args>
  Error fail_here(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) const {
    return located(code, format_packed(text, fmt::make_format_args(args...)));
  }

 private:
  Error located(ErrorCode code, const std::string& sentence) const;
  Error truncated(std::uint64_t wanted) const;
  std::string bytes_left() const;
  Status fill();

  const ByteSource& source_;
  std::uint64_t end_;
  std::uint64_t offset_ = 0;
  std::string part_ = "the header";
  std::vector<std::byte> window_;  // the bytes from `window_begin_` on
  std::uint64_t window_begin_ = 0;
};

}  // namespace pagoda::io
