#include "apps/npy_writer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/check.h"
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
  std::optional<Output> output;
  if (!special) output.emplace(PAGODA_TRY(Output::create(path, true)));
  std::FILE* file = special ? std::fopen(path.c_str(), "wb") : std::fopen(output->work_path().c_str(), "wbx");
  if (file == nullptr) return fail(ErrorCode::kIoFailed, "{} cannot be written: {}", path, std::strerror(errno));
  NpyWriter writer(std::move(path), std::move(output), file, rows);

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
  if (std::fwrite(head.data(), 1, head.size(), file) != head.size()) writer.error_ = errno;
  return writer;
}

NpyWriter::NpyWriter(NpyWriter&& other) noexcept
    : path_(std::move(other.path_)),
      output_(std::move(other.output_)),
      file_(std::exchange(other.file_, nullptr)),
      rows_left_(other.rows_left_),
      error_(other.error_) {}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

bool NpyWriter::write(std::span<const float> row) {
  if (error_ == 0 && std::fwrite(row.data(), sizeof(float), row.size(), file_) != row.size()) error_ = errno;
  --rows_left_;
  return error_ == 0;
}

Status NpyWriter::finish() {
  if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  if (error_ != 0) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written in full: {}", path_, std::strerror(error_));
  }
  PAGODA_CHECK(rows_left_ == 0, "{} rows of {} are missing", rows_left_, path_);
  std::fclose(std::exchange(file_, nullptr));
  return output_ ? output_->commit() : Status(Ok{});
}

}  // namespace pagoda::apps
