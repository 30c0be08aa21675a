#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace pagoda {

/// A regular file open for reading. Its size is taken once, at `open`; reads past it are our fault, and a file that
/// has shrunk meanwhile is an error (kFileChanged), never a signal: nothing is mapped.
class File {
 public:
  static Result<File> open(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  /// Fills `into` with the bytes at `offset`. May be called from several threads at once.
  Status read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  File() = default;

  std::string path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

/// The whole of a small text file; more than `max_bytes` is an error. Path "-" is standard input.
Result<std::string> read_text(const std::string& path, std::uint64_t max_bytes);

}  // namespace pagoda
