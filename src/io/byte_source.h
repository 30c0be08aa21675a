// Where a model's bytes come from: a file, or memory in tests and fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace pagoda::io {

/// Random access to a fixed number of bytes. `read` may be called from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// The path, or what stands for it in error messages.
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size() const = 0;

  /// Fills `into` with the bytes at `offset`. A range outside `size()` is our fault; errors: kFileUnreadable,
  /// kFileChanged (the file has shrunk since it was opened).
  virtual Status read(std::uint64_t offset, std::span<std::byte> into) const = 0;
};

class FileSource final : public ByteSource {
 public:
  explicit FileSource(File file) : file_(std::move(file)) {}

  const std::string& name() const override { return file_.path(); }
  std::uint64_t size() const override { return file_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> into) const override { return file_.read(offset, into); }

 private:
  File file_;
};

/// Bytes that the caller keeps alive.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::span<const std::byte> bytes) : name_(std::move(name)), bytes_(bytes) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

}  // namespace pagoda::io
