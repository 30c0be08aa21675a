#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "io/quoted.h"
#include "io/safetensors_table.h"

namespace pagoda::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
static_assert(std::endian::native == std::endian::little, "the length is read as it lies");

struct Header {
  std::string text;         // without its padding
  std::uint64_t bytes = 0;  // with it
};

Result<Header> read_header(const ByteSource& source) {
  if (source.size() < kLengthBytes) {
    return fail(ErrorCode::kSafetensorsTruncated, "{}: has {} bytes, fewer than the {} of a header's length",
                source.name(), source.size(), kLengthBytes);
  }
  std::uint64_t length = 0;
  PAGODA_TRY(source.read(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > SafetensorsLimits::kMaxHeaderBytes) {
    return fail(ErrorCode::kSafetensorsHeaderLimit, "{}: claims a header of {} bytes; at most {} are allowed",
                source.name(), length, SafetensorsLimits::kMaxHeaderBytes);
  }
  if (length > source.size() - kLengthBytes) {
    return fail(ErrorCode::kSafetensorsHeaderLength, "{}: claims a header of {} bytes, but {} follow", source.name(),
                length, source.size() - kLengthBytes);
  }
  std::string header(length, '\0');
  PAGODA_TRY(source.read(kLengthBytes, std::as_writable_bytes(std::span(header.data(), header.size()))));
  if (!header.starts_with('{')) {
    return fail(ErrorCode::kSafetensorsHeaderStart, "{}: the header begins with {}, not with '{{'", source.name(),
                quoted(header.substr(0, 1)));
  }
  const std::size_t last = header.find_last_not_of(' ');
  if (header[last] != '}' && std::string_view("\t\n\r").find(header[last]) != std::string_view::npos) {
    return fail(ErrorCode::kSafetensorsHeaderPadding, "{}: the header is padded with {}; only spaces are allowed",
                source.name(), quoted(header.substr(last, 1)));
  }
  header.resize(last + 1);
  return Header{.text = std::move(header), .bytes = length};
}

/// Every byte belongs to one tensor: sorted ranges start at 0, touch, and end with the file.
Status check_ranges(const std::string& file, std::uint64_t data_bytes, const std::vector<TensorEntry>& sorted) {
  std::uint64_t end = 0;
  const TensorEntry* before = nullptr;
  for (const TensorEntry& entry : sorted) {
    if (entry.offset < end) {
      return fail(ErrorCode::kSafetensorsTensorOverlap,
                  "{}: tensor {} begins at {} of the tensor bytes, inside tensor {}, which ends at {}", file,
                  quoted(entry.name), entry.offset, quoted(before->name), end);
    }
    if (entry.offset > end) {
      return fail(ErrorCode::kSafetensorsGap, "{}: the bytes {} to {} before tensor {} belong to no tensor", file, end,
                  entry.offset, quoted(entry.name));
    }
    end = entry.offset + entry.bytes;
    before = &entry;
  }
  if (end == data_bytes) return Ok{};
  return fail(ErrorCode::kSafetensorsGap, "{}: {} bytes follow the header, and the tensors end at {} of them", file,
              data_bytes, end);
}

}  // namespace

Result<std::vector<TensorEntry>> read_safetensors(const ByteSource& source) {
  if (source.size() == 0) return fail(ErrorCode::kFileEmpty, "{}: the file is empty", source.name());
  const Header header = PAGODA_TRY(read_header(source));
  const std::uint64_t data_begin = kLengthBytes + header.bytes;
  const std::uint64_t data_bytes = source.size() - data_begin;
  SafetensorsTable table = PAGODA_TRY(read_safetensors_table(header.text, source.name(), data_bytes));
  std::vector<std::uint32_t> order(table.entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const TensorEntry& x = table.entries[a];
    const TensorEntry& y = table.entries[b];
    return std::pair(x.offset, x.bytes) < std::pair(y.offset, y.bytes);
  });
  std::vector<TensorEntry> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t index : order) sorted.push_back(std::move(table.entries[index]));
  PAGODA_TRY(check_ranges(source.name(), data_bytes, sorted));
  for (TensorEntry& entry : sorted) entry.offset += data_begin;
  return sorted;
}

}  // namespace pagoda::io
