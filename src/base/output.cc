#include "base/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/check.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

Error failed(const std::string& path, int error) {
  return fail(ErrorCode::kIoFailed, "{} cannot be written: {}", path, std::strerror(error));
}

/// Whether anything has that name, a link to nowhere included.
bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

}  // namespace

Result<Output> Output::create(const std::string& path, bool overwrite) {
  Output output;
  output.path_ = path;
  output.overwrite_ = overwrite;
  while (output.path_.size() > 1 && output.path_.ends_with('/')) output.path_.pop_back();
  if (output.path_.empty()) return fail(ErrorCode::kInvalidArgument, "the output has no name");
  if (is_there(output.path_) && !overwrite) {
    return fail(ErrorCode::kInvalidArgument, "{} exists; --overwrite replaces it", output.path_);
  }
  const fs::path parent = fs::absolute(output.path_).parent_path();
  std::error_code error;
  if (!fs::is_directory(parent, error)) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written: {} is no directory", path, parent.string());
  }
  // Beside the place, so that moving is renaming.
  output.work_path_ = pagoda::format("{}.partial-{}", output.path_, static_cast<long>(::getpid()));
  fs::remove_all(output.work_path_, error);
  return output;
}

Output::Output(Output&& other) noexcept
    : path_(std::move(other.path_)),
      work_path_(std::exchange(other.work_path_, std::string())),
      overwrite_(other.overwrite_) {}

Output::~Output() {
  std::error_code error;
  if (!work_path_.empty()) fs::remove_all(work_path_, error);
}

Status Output::commit() {
  PAGODA_CHECK(!work_path_.empty(), "{} is in its place already", path_);
  std::error_code error;
  if (!overwrite_) {
    int failed_with =
        ::renameat2(AT_FDCWD, work_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
    if (failed_with == EINVAL || failed_with == ENOSYS) {  // a file system that cannot promise it
      failed_with = EEXIST;
      if (!is_there(path_)) failed_with = ::rename(work_path_.c_str(), path_.c_str()) == 0 ? 0 : errno;
    }
    error.assign(failed_with, std::generic_category());
  } else {
    fs::rename(work_path_, path_, error);
  }
  if (error && overwrite_ && is_there(path_)) {  // a directory takes no other's place: the old one steps aside first
    const std::string aside = work_path_ + ".old";
    fs::rename(path_, aside, error);
    if (!error) fs::rename(work_path_, path_, error);
    if (error) {
      std::error_code ignored;
      fs::rename(aside, path_, ignored);
    } else {
      fs::remove_all(aside, error);
      error.clear();
    }
  }
  if (error) return fail(ErrorCode::kIoFailed, "{} cannot be put in its place: {}", path_, error.message());
  work_path_.clear();
  return Ok{};
}

Result<NewFile> NewFile::create(const std::string& path, std::uint64_t bytes) {
  NewFile file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return failed(path, errno);
  const auto size = static_cast<off_t>(bytes);
  int room = 0;
  do {
    room = size == 0 || ::fallocate(file.descriptor_, 0, 0, size) == 0 ? 0 : errno;
  } while (room == EINTR);
  if (room != 0 && room != EOPNOTSUPP && room != ENOSYS) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written: there is no room for its {} bytes: {}", path, bytes,
                std::strerror(room));
  }
  if (::ftruncate(file.descriptor_, size) != 0) return failed(path, errno);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status NewFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(path_, written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return Ok{};
}

Status NewFile::finish() {
  const int descriptor = std::exchange(descriptor_, -1);
  const int synced = ::fsync(descriptor) == 0 ? 0 : errno;
  const int closed = ::close(descriptor) == 0 ? 0 : errno;
  if (synced != 0) return failed(path_, synced);
  if (closed != 0) return failed(path_, closed);
  return Ok{};
}

Status write_text(const std::string& path, std::string_view text) {
  NewFile file = PAGODA_TRY(NewFile::create(path, text.size()));
  PAGODA_TRY(file.write(0, std::as_bytes(std::span(text.data(), text.size()))));
  return file.finish();
}

}  // namespace pagoda
