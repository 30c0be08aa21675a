// A two-dimensional float32 array, written row by row.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>

#include "base/output.h"
#include "pagoda/types.h"

namespace pagoda::apps {

/// Writes `path` in NumPy's format 1.0. The file takes its name when `finish` succeeds; until then, and after a fault,
/// what was there before stays. A device or a pipe is written as it is, and a link stays a link. Source:
/// numpy.lib.format.
class NpyWriter {
 public:
  /// Errors: kInvalidArgument, a file that is neither empty nor a .npy stands there; kIoFailed.
  static Result<NpyWriter> create(std::string path, std::int64_t rows, std::int64_t cols);
  NpyWriter(NpyWriter&& other) noexcept;
  NpyWriter& operator=(NpyWriter&&) = delete;
  ~NpyWriter();

  /// The next row, of `cols` values. False if it cannot be written: `finish` tells why.
  bool write(std::span<const float> row);

  /// After all rows, or one that could not be written. Error: kIoFailed, the disk is full.
  Status finish();

 private:
  NpyWriter(std::string path, std::optional<Output> output, std::FILE* file, std::int64_t rows)
      : path_(std::move(path)), output_(std::move(output)), file_(file), rows_left_(rows) {}

  std::string path_;
  std::optional<Output> output_;  // absent: a device or a pipe
  std::FILE* file_ = nullptr;
  std::int64_t rows_left_ = 0;
  int error_ = 0;  // the first that a write met
};

}  // namespace pagoda::apps
