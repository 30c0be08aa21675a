#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace pagoda {

Result<File> File::open(const std::string& path) {
  File file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor_ < 0) {
    const auto code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kFileNotFound : ErrorCode::kFileUnreadable;
    return fail(code, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) {
    return fail(ErrorCode::kFileUnreadable, "{}: cannot be examined: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kFileUnreadable, "{}: is not a regular file", path);
  }
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status File::read(std::uint64_t offset, std::span<std::byte> into) const {
  PAGODA_CHECK(offset <= size_ && into.size() <= size_ - offset, "offset {} bytes {} size {}", offset, into.size(),
               size_);
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorCode::kFileUnreadable, "{}: reading {} bytes at offset {} failed: {}", path_, into.size(),
                  offset, std::strerror(errno));
    }
    if (got == 0) {
      return fail(ErrorCode::kFileChanged, "{}: ends at offset {}, but was {} bytes long when it was opened", path_,
                  offset, size_);
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return Ok{};
}

Result<std::string> read_text(const std::string& path, std::uint64_t max_bytes) {
  const bool standard_input = path == "-";
  const int descriptor = standard_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const auto code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kFileNotFound : ErrorCode::kFileUnreadable;
    return fail(code, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  std::string text;
  Status status = Ok{};
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = fail(ErrorCode::kFileUnreadable, "{}: cannot be read: {}", path, std::strerror(errno));
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      status = fail(ErrorCode::kFileUnreadable, "{}: is longer than the {} bytes allowed here", path, max_bytes);
      break;
    }
  }
  if (!standard_input) ::close(descriptor);
  if (!status.ok()) return std::move(status).error();
  return text;
}

}  // namespace pagoda
