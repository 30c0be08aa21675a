// Files that are whole or not there: written beside their place under another name, and moved into it at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda {

/// Where a file or directory is to stand. Until `commit` everything is under `work_path()`, which does not exist yet
/// and which the destructor removes with all that is in it.
class Output {
 public:
  /// Errors: kInvalidArgument if something is at `path` and `overwrite` is false; kIoFailed if there is no directory to
  /// hold it.
  static Result<Output> create(const std::string& path, bool overwrite);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  const std::string& path() const { return path_; }
  const std::string& work_path() const { return work_path_; }

  /// Moves what was made to its place; what was there before is gone then, and was there until then. What came there
  /// after `create` without `overwrite` stays, and is an error. Error: kIoFailed.
  Status commit();

 private:
  Output() = default;

  std::string path_;
  std::string work_path_;
  bool overwrite_ = false;
};

/// A new file of a size known before. Any thread may write any part of it.
class NewFile {
 public:
  /// Takes the room on the disk at once, where the file system can. Errors: kIoFailed with the bytes that are wanted
  /// and the reason.
  static Result<NewFile> create(const std::string& path, std::uint64_t bytes);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// A part that is never written is zero. Errors: kIoFailed.
  Status write(std::uint64_t offset, std::span<const std::byte> bytes) const;

  /// Returns when the bytes are on the disk. Error: kIoFailed.
  Status finish();

 private:
  NewFile() = default;

  std::string path_;
  int descriptor_ = -1;
};

/// A whole small file. Error: kIoFailed.
Status write_text(const std::string& path, std::string_view text);

}  // namespace pagoda
