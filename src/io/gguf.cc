#include "io/gguf.h"

#include <array>
#include <bit>
#include <limits>

#include "base/checked.h"
#include "io/gguf_cursor.h"
#include "io/gguf_metadata.h"
#include "io/gguf_tensors.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

constexpr std::uint64_t kLeastKeyBytes = 14;     // length, one character, type, one byte
constexpr std::uint64_t kLeastTensorBytes = 33;  // length, one character, rank, one dimension, type, offset

Result<std::uint32_t> read_version(GgufCursor& cursor) {
  std::array<char, 4> magic{};
  PAGODA_TRY(cursor.read(std::as_writable_bytes(std::span(magic))));
  const std::string_view found(magic.data(), magic.size());
  if (found == "FUGG") return cursor.fail_here(ErrorCode::kGgufByteOrder, "it is written in big-endian byte order");
  if (found != "GGUF") {
    return cursor.fail_here(ErrorCode::kGgufMagic, "it begins with {}, not with 'GGUF'", quoted(found));
  }
  const auto version = PAGODA_TRY(cursor.number<std::uint32_t>());
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffff) == 0) {
    return cursor.fail_here(ErrorCode::kGgufByteOrder,
                            "it is written in big-endian byte order; only little-endian files are read");
  }
  if (version == 1) {
    return cursor.fail_here(ErrorCode::kGgufVersion,
                            "it has version 1, of August 2023, with 32-bit counts; convert it to version 3");
  }
  return cursor.fail_here(ErrorCode::kGgufVersion, "it has version {}; 2 and 3 are read", version);
}

Result<std::uint64_t> alignment_of(const RawConfig& config) {
  constexpr std::uint64_t kDefault = 32;
  const Value* value = config.find("general.alignment");
  if (value == nullptr) return kDefault;
  const auto* alignment = value->get_if<std::int64_t>();
  if (alignment == nullptr) {
    return fail(ErrorCode::kGgufAlignment, "{}: key 'general.alignment' is {}, not an integer", config.source(),
                value->kind());
  }
  const auto bytes = static_cast<std::uint64_t>(*alignment);
  if (bytes < GgufLimits::kMinAlignment || bytes > GgufLimits::kMaxAlignment || !std::has_single_bit(bytes)) {
    return fail(ErrorCode::kGgufAlignment, "{}: key 'general.alignment' is {}; allowed are powers of two from {} to {}",
                config.source(), *alignment, GgufLimits::kMinAlignment, GgufLimits::kMaxAlignment);
  }
  return bytes;
}

Status refuse_split(const RawConfig& config) {
  if (!config.contains("split.count")) return Ok{};
  auto count = config.integer("split.count", 0, std::numeric_limits<std::int64_t>::max());
  if (!count.ok()) return fail(ErrorCode::kGgufSplit, "{}", count.error().message);
  if (*count <= 1) return Ok{};
  return fail(
      ErrorCode::kGgufSplit,
      "{}: key 'split.count' is {}: it is one of several files of a split model, which are not read; merge them "
      "into one file",
      config.source(), *count);
}

}  // namespace

Result<GgufHeader> read_gguf(const ByteSource& source) {
  if (source.size() == 0) return fail(ErrorCode::kFileEmpty, "{}: the file is empty", source.name());
  GgufCursor cursor(source, GgufLimits::kMaxHeaderBytes);
  GgufHeader header;
  header.config = RawConfig(source.name());
  header.version = PAGODA_TRY(read_version(cursor));
  const auto num_tensors =
      PAGODA_TRY(cursor.count(ErrorCode::kGgufTensorCount, "tensors", kLeastTensorBytes, GgufLimits::kMaxTensors));
  const auto num_keys =
      PAGODA_TRY(cursor.count(ErrorCode::kGgufKeyCount, "keys", kLeastKeyBytes, GgufLimits::kMaxKeys));
  header.keys = PAGODA_TRY(read_gguf_metadata(cursor, num_keys, header.config));
  header.alignment = PAGODA_TRY(alignment_of(header.config));
  PAGODA_TRY(refuse_split(header.config));
  auto tensors = PAGODA_TRY(read_gguf_tensors(cursor, num_tensors, header.alignment));
  header.data_offset = round_up(cursor.offset(), header.alignment);
  PAGODA_TRY(place_gguf_tensors(source.name(), source.size(), header.data_offset, tensors));
  header.tensors = TensorCatalog(std::move(tensors));
  if (const std::string* name = header.tensors.duplicate()) {
    return fail(ErrorCode::kGgufTensorDuplicate, "{}: tensor {} is there twice", source.name(), quoted(*name));
  }
  return header;
}

}  // namespace pagoda::io
