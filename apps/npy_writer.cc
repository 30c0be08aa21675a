#include "apps/npy_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace pagoda::apps {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// The file that `path` leads to, so that a link stays a link.
std::string followed(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

/// Whether a rename would put a file in the place of something else, such as a pipe or /dev/null.
bool is_special(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// A name that was given by mistake must not cost a model or a text.
Status refuse_other_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) || std::filesystem::file_size(path, error) == 0) return Ok{};
  std::string head(kMagic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), std::ssize(head));
  if (head == kMagic) return Ok{};
  return fail(ErrorCode::kInvalidArgument, "{} exists and is no .npy file: it is not replaced", path);
}

}  // namespace

Result<NpyWriter> NpyWriter::create(std::string path, std::int64_t rows, std::int64_t cols) {
  path = followed(path);
  const bool special = is_special(path);
  if (!special) PAGODA_TRY(refuse_other_files(path));
  std::string temporary = special ? path : path + ".partial";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return fail(ErrorCode::kIoFailed, "{} cannot be written: {}", path, std::strerror(errno));
  NpyWriter writer(std::move(path), std::move(temporary), file, rows);

  // Magic, version, length, a Python dict padded with spaces so that the values begin at a multiple of 64.
  std::string dict = pagoda::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  while ((10 + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string head(kMagic);
  head += '\x01';
  head += '\0';
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
  if (temporary_ != path_) unlink(temporary_.c_str());
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
  if (temporary_ != path_ && std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written: {}", path_, std::strerror(errno));
  }
  std::fclose(std::exchange(file_, nullptr));
  return Ok{};
}

}  // namespace pagoda::apps
