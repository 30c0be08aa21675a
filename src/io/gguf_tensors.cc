#include "io/gguf_tensors.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/checked.h"
#include "io/gguf.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

// The names that GGUF gives to its tensor types; those without a format of ours are refused by name.
constexpr std::string_view kTypeNames[] = {
    "F32",        "F16",        "Q4_0",       "Q4_1",  "Q4_2",     "Q4_3",     "Q5_0",     "Q5_1",    "Q8_0",
    "Q8_1",       "Q2_K",       "Q3_K",       "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
    "I64",        "F64",        "IQ1_M",      "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0",
    "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4",    "Q1_0"};
static_assert(std::size(kTypeNames) == 42 && kTypeNames[39] == "MXFP4");

std::string supported_formats() {
  std::string names;
  for (const quant::Format* format : quant::all_formats()) {
    if (format->gguf_type < 0) continue;
    names += names.empty() ? "" : " ";
    names += format->name;
  }
  return names;
}

Result<const quant::Format*> read_format(GgufCursor& cursor) {
  const auto type = PAGODA_TRY(cursor.number<std::uint32_t>());
  const auto number =
      static_cast<std::int32_t>(std::min<std::uint32_t>(type, std::numeric_limits<std::int32_t>::max()));
  if (const quant::Format* format = quant::find_gguf_type(number)) return format;
  if (type >= std::size(kTypeNames)) {
    return cursor.fail_here(ErrorCode::kGgufTensorType, "type number {} is unknown; supported are {}", type,
                            supported_formats());
  }
  return cursor.fail_here(ErrorCode::kGgufTensorType, "type {} (number {}) is not supported; supported are {}",
                          kTypeNames[type], type, supported_formats());
}

Result<std::vector<std::int64_t>> read_shape(GgufCursor& cursor) {
  constexpr std::uint32_t kMaxRank = 4;
  const auto rank = PAGODA_TRY(cursor.number<std::uint32_t>());
  if (rank < 1 || rank > kMaxRank) {
    return cursor.fail_here(ErrorCode::kGgufTensorRank, "it has {} dimensions; allowed are 1 to {}", rank, kMaxRank);
  }
  std::vector<std::int64_t> shape(rank);
  std::int64_t elements = 1;              // with every 0 taken as 1, so that no order of dimensions hides an overflow
  for (std::size_t i = rank; i-- > 0;) {  // the file names the contiguous dimension first
    const auto dimension = PAGODA_TRY(cursor.number<std::uint64_t>());
    if (dimension > GgufLimits::kMaxDimension) {
      return cursor.fail_here(ErrorCode::kGgufTensorDimension, "dimension {} is {}; allowed are 0 to {}", rank - 1 - i,
                              static_cast<std::int64_t>(dimension), GgufLimits::kMaxDimension);
    }
    shape[i] = static_cast<std::int64_t>(dimension);
    const auto product = checked_mul(elements, std::max<std::int64_t>(shape[i], 1));
    if (!product) return cursor.fail_here(ErrorCode::kGgufTensorSize, "the product of its dimensions passes 63 bits");
    elements = *product;
  }
  return shape;
}

Result<TensorEntry> read_tensor(GgufCursor& cursor, std::uint64_t alignment) {
  cursor.set_part("the name of a tensor");
  TensorEntry entry;
  entry.name = PAGODA_TRY(cursor.string(ErrorCode::kGgufTensorName, "the name", GgufLimits::kMaxTensorNameBytes));
  if (entry.name.empty()) return cursor.fail_here(ErrorCode::kGgufTensorName, "the name is empty");
  cursor.set_part("tensor " + quoted(entry.name));
  if (!is_utf8(entry.name)) return cursor.fail_here(ErrorCode::kGgufStringEncoding, "the name is not valid UTF-8");
  if (has_control_characters(entry.name))
    return cursor.fail_here(ErrorCode::kGgufTensorName, "the name has control characters");
  entry.shape = PAGODA_TRY(read_shape(cursor));
  entry.format = PAGODA_TRY(read_format(cursor));
  if (!entry.format->fits(entry.cols())) {
    return cursor.fail_here(ErrorCode::kGgufTensorBlock,
                            "its rows have {} elements, no multiple of the {} of a {} block", entry.cols(),
                            entry.format->block_elements, entry.format->name);
  }
  const auto bytes = checked_mul(entry.rows(), entry.format->row_bytes(entry.cols()));
  if (!bytes) return cursor.fail_here(ErrorCode::kGgufTensorSize, "its size in bytes passes 63 bits");
  entry.bytes = static_cast<std::uint64_t>(*bytes);
  entry.offset = PAGODA_TRY(cursor.number<std::uint64_t>());
  if (entry.offset % alignment != 0) {
    return cursor.fail_here(ErrorCode::kGgufTensorOffset, "its bytes start at {}, no multiple of the alignment {}",
                            entry.offset, alignment);
  }
  return entry;
}

}  // namespace

Result<std::vector<TensorEntry>> read_gguf_tensors(GgufCursor& cursor, std::uint64_t num_tensors,
                                                   std::uint64_t alignment) {
  std::vector<TensorEntry> tensors;
  tensors.reserve(num_tensors);
  for (std::uint64_t i = 0; i < num_tensors; ++i) tensors.push_back(PAGODA_TRY(read_tensor(cursor, alignment)));
  return tensors;
}

Status place_gguf_tensors(const std::string& file, std::uint64_t file_bytes, std::uint64_t data_offset,
                          std::vector<TensorEntry>& tensors) {
  const std::uint64_t data_bytes = data_offset <= file_bytes ? file_bytes - data_offset : 0;
  for (TensorEntry& tensor : tensors) {
    if (data_offset > file_bytes || tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      return fail(ErrorCode::kGgufTensorRange,
                  "{}: tensor {} needs {} bytes at {} of the tensor bytes, but the file, {} bytes long, has {} of them "
                  "from offset {} on",
                  file, quoted(tensor.name), tensor.bytes, tensor.offset, file_bytes, data_bytes, data_offset);
    }
    tensor.offset += data_offset;
  }
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::uint32_t index) { return tensors[index].bytes == 0; });
  std::ranges::sort(order, {}, [&](std::uint32_t index) { return tensors[index].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorEntry& before = tensors[order[i - 1]];
    const TensorEntry& after = tensors[order[i]];
    if (after.offset - before.offset < before.bytes) {
      return fail(ErrorCode::kGgufTensorOverlap,
                  "{}: tensor {} starts at offset {}, inside tensor {} of {} bytes at offset {}", file,
                  quoted(after.name), after.offset, quoted(before.name), before.bytes, before.offset);
    }
  }
  return Ok{};
}

}  // namespace pagoda::io
