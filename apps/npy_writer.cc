#include "apps/npy_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/result.h"

namespace pagoda::apps {

Result<NpyWriter> NpyWriter::create(std::string path, std::int64_t rows, std::int64_t cols) {
  std::string temporary = path + ".partial";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return fail(ErrorCode::kIoFailed, "{} cannot be written: {}", path, std::strerror(errno));
  NpyWriter writer(std::move(path), std::move(temporary), file, rows);

  // Magic, version, length, a Python dict padded with spaces so that the values begin at a multiple of 64.
  std::string dict = pagoda::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  while ((10 + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dict.size() & 0xff);
  head += static_cast<char>(dict.size() >> 8);
  head += dict;
  writer.failed_ = std::fwrite(head.data(), 1, head.size(), file) != head.size();
  return writer;
}

NpyWriter::NpyWriter(NpyWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, nullptr)),
      rows_left_(other.rows_left_),
      failed_(other.failed_) {}

NpyWriter::~NpyWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  unlink(temporary_.c_str());
}

bool NpyWriter::write(std::span<const float> row) {
  failed_ = failed_ || std::fwrite(row.data(), sizeof(float), row.size(), file_) != row.size();
  --rows_left_;
  return !failed_;
}

Status NpyWriter::finish() {
  const bool flushed = std::fflush(file_) == 0;
  if (failed_ || !flushed || rows_left_ != 0) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written in full: {}", path_, std::strerror(errno));
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written: {}", path_, std::strerror(errno));
  }
  std::fclose(std::exchange(file_, nullptr));
  return Ok{};
}

}  // namespace pagoda::apps
