#include "io/model_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "io/gguf.h"
#include "io/model_folder.h"
#include "io/planar.h"

namespace pagoda::io {
namespace {

namespace fs = std::filesystem;

Error not_a_model(const std::string& path, std::string_view what) {
  return fail(ErrorCode::kNotAModel, "{}: {}; a model is a GGUF file or a Hugging Face directory", path, what);
}

// What a file that does not begin as GGUF seems to be, if that can be told.
std::optional<std::string> other_kind(std::string_view head) {
  if (head.starts_with("GGUF") || head.starts_with("FUGG")) return std::nullopt;
  if (head.starts_with("PK\x03\x04")) return "is a zip archive (as of PyTorch)";
  if (head.size() > 8 && head[8] == '{' && head[7] == 0)
    return "is a safetensors file, which is read with its directory";
  const auto binary = [](char c) { return static_cast<std::uint8_t>(c) < 0x20 && !std::isspace(c); };
  if (std::ranges::any_of(head, binary)) return std::nullopt;
  return "is a text file";
}

Result<bool> is_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return fail(ErrorCode::kFileNotFound, "{}: there is no such file or directory", path);
  }
  if (error) return fail(ErrorCode::kFileUnreadable, "{}: cannot be examined: {}", path, error.message());
  if (!fs::is_directory(status) && !fs::is_regular_file(status))
    return not_a_model(path, "is neither a file nor a directory");
  return fs::is_directory(status);
}

}  // namespace

ModelFile::ModelFile(std::string container, RawConfig config, TensorCatalog tensors,
                     std::vector<std::unique_ptr<ByteSource>> files, std::string folder)
    : container_(std::move(container)),
      config_(std::move(config)),
      tensors_(std::move(tensors)),
      files_(std::move(files)),
      folder_(std::move(folder)) {}

std::uint64_t ModelFile::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& file : files_) bytes += file->size();
  return bytes;
}

Status ModelFile::read_rows(const TensorEntry& entry, std::int64_t first_row, std::int64_t num_rows,
                            std::span<std::byte> into) const {
  PAGODA_CHECK(first_row >= 0 && num_rows >= 0 && first_row <= entry.rows() && num_rows <= entry.rows() - first_row,
               "rows {} and {} more of {}", first_row, num_rows, entry.rows());
  const std::int64_t row_bytes = entry.format->row_bytes(entry.cols());
  PAGODA_CHECK(into.size() == static_cast<std::uint64_t>(row_bytes * num_rows), "{} bytes for {} rows of {}",
               into.size(), num_rows, row_bytes);
  if (entry.planar != nullptr) return read_planar(*entry.planar, *this, {first_row, num_rows}, into);
  return read_bytes(entry, static_cast<std::uint64_t>(row_bytes * first_row), into);
}

Status ModelFile::read_values(const TensorEntry& entry, std::int64_t first_row, std::int64_t num_rows,
                              std::span<float> into) const {
  const std::int64_t cols = entry.cols();
  const std::int64_t row_bytes = entry.format->row_bytes(cols);
  PAGODA_CHECK(std::ssize(into) == num_rows * cols, "{} values for {} rows of {}", into.size(), num_rows, cols);
  std::vector<std::byte> rows(static_cast<std::size_t>(num_rows * row_bytes));
  PAGODA_TRY(read_rows(entry, first_row, num_rows, rows));
  const std::span<const std::int32_t> order = entry.column_order();
  std::vector<float> row(order.size());
  for (std::int64_t i = 0; i < num_rows; ++i) {
    float* out = into.data() + i * cols;
    entry.format->decode_row(rows.data() + i * row_bytes, cols, order.empty() ? out : row.data());
    for (std::size_t c = 0; c < order.size(); ++c) out[order[c]] = row[c];
  }
  return Ok{};
}

Status ModelFile::read_bytes(const TensorEntry& entry, std::uint64_t begin, std::span<std::byte> into) const {
  PAGODA_CHECK(entry.planar == nullptr, "{} lies in several tensors", entry.name);
  PAGODA_CHECK(begin <= entry.bytes && into.size() <= entry.bytes - begin, "bytes {} and {} more of {}", begin,
               into.size(), entry.bytes);
  const auto file = static_cast<std::size_t>(entry.file_index);
  PAGODA_CHECK(file < files_.size(), "file {} of {}", file, files_.size());
  return files_[file]->read(entry.offset + begin, into);
}

Result<ModelFile> open_gguf(std::unique_ptr<ByteSource> source) {
  GgufHeader header = PAGODA_TRY(read_gguf(*source));
  std::vector<std::unique_ptr<ByteSource>> files;
  files.push_back(std::move(source));
  return ModelFile(pagoda::format("GGUF version {}", header.version), std::move(header.config),
                   std::move(header.tensors), std::move(files));
}

Result<ModelFile> open_model(const std::string& path) {
  if (PAGODA_TRY(is_folder(path))) return open_model_folder(path);
  auto source = std::make_unique<FileSource>(PAGODA_TRY(File::open(path)));
  if (source->size() == 0) return fail(ErrorCode::kFileEmpty, "{}: the file is empty", path);
  std::array<char, 256> head{};
  const std::size_t head_bytes = std::min<std::uint64_t>(head.size(), source->size());
  PAGODA_TRY(source->read(0, std::as_writable_bytes(std::span(head.data(), head_bytes))));
  if (const auto kind = other_kind({head.data(), head_bytes})) return not_a_model(path, *kind);
  return open_gguf(std::move(source));
}

}  // namespace pagoda::io
