#include "api/folder_tensors.h"

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "base/numbers.h"
#include "quant/encode_rows.h"

namespace pagoda::api {
namespace {

using quant::SplitRow;

constexpr std::int64_t kTile = 128;  // rows and columns of fp8 that share a scale

void append(std::vector<std::byte>& out, const void* bytes, std::size_t count) {
  const auto* begin = static_cast<const std::byte*>(bytes);
  out.insert(out.end(), begin, begin + count);
}

/// Appends what one row adds to a tensor.
using AppendRow = std::function<void(std::int64_t row, const SplitRow& parts, std::vector<std::byte>& out)>;

/// A tensor of as many bytes for each `rows_each` rows of the weight.
TensorPart by_rows(const TensorJob& job, std::string name, std::string_view dtype, std::vector<std::int64_t> shape,
                   std::uint64_t bytes_each, std::int64_t rows_each, const AppendRow& append_row) {
  const quant::Format& format = *job.target.format;
  const std::int64_t cols = job.source.cols;
  const auto total = bytes_each * static_cast<std::uint64_t>(ceil_div(job.source.rows, rows_each));
  return {.tensor = {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = total},
          .bytes_of = [=, &format, split = quant::find_splitter(format)](std::int64_t first, std::int64_t count,
                                                                         std::span<const std::byte> blocks,
                                                                         std::vector<std::byte>& out) -> std::uint64_t {
            SplitRow parts;
            for (std::int64_t row = first; row < first + count; ++row) {
              if (row % rows_each != 0) continue;
              split(blocks.data() + (row - first) * format.row_bytes(cols), cols, parts);
              append_row(row, parts, out);
            }
            return static_cast<std::uint64_t>(ceil_div(first, rows_each)) * bytes_each;
          }};
}

void append_codes(std::int64_t, const SplitRow& parts, std::vector<std::byte>& out) {
  append(out, parts.codes.data(), parts.codes.size());
}

/// The low `kBytes` bytes of each word.
template <std::size_t kBytes>
void append_words(const std::vector<std::uint32_t>& words, std::vector<std::byte>& out) {
  for (const std::uint32_t word : words) append(out, &word, kBytes);
}

void append_as_bf16(const std::vector<std::uint32_t>& words, std::vector<std::byte>& out) {
  for (const std::uint32_t word : words) {
    const auto half = static_cast<std::uint16_t>(word >> 16);  // scales are encoded as bfloat16, below a zero point
    append(out, &half, sizeof half);
  }
}

/// The name without "weight".
std::string stem(const TensorJob& job) {
  const std::string& name = job.target.name;
  PAGODA_CHECK(name.ends_with("weight"), "{}", name);
  return name.substr(0, name.size() - std::strlen("weight"));
}

TensorPart constant(std::string name, std::string_view dtype, std::vector<std::int64_t> shape,
                    std::vector<std::byte> bytes) {
  const std::uint64_t total = bytes.size();
  return {.tensor = {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = total},
          .bytes_of =
              [bytes = std::move(bytes)](std::int64_t first, std::int64_t, auto, std::vector<std::byte>& out) {
                if (first == 0) out = bytes;
                return std::uint64_t{0};
              },
          .whole = true};
}

std::vector<TensorPart> mlx_parts(const TensorJob& job) {
  const quant::Coding& coding = *job.target.format->coding;
  const auto [rows, cols] = std::pair(job.source.rows, job.source.cols);
  const std::int64_t words = cols * coding.bits / 32;
  const std::int64_t groups = cols / coding.group;
  const std::string base = stem(job);
  std::vector<TensorPart> parts;
  parts.push_back(
      by_rows(job, base + "weight", "U32", {rows, words}, static_cast<std::uint64_t>(words) * 4, 1, append_codes));
  if (coding.offset == quant::OffsetType::kNone) {  // a byte of exponent a group
    parts.push_back(by_rows(job, base + "scales", "U8", {rows, groups}, static_cast<std::uint64_t>(groups), 1,
                            [](auto, const SplitRow& row, auto& out) { append_words<1>(row.scales, out); }));
    return parts;
  }
  const auto bytes = static_cast<std::uint64_t>(groups) * 2;
  parts.push_back(by_rows(job, base + "scales", "BF16", {rows, groups}, bytes, 1,
                          [](auto, const SplitRow& row, auto& out) { append_words<2>(row.scales, out); }));
  parts.push_back(by_rows(job, base + "biases", "BF16", {rows, groups}, bytes, 1,
                          [](auto, const SplitRow& row, auto& out) { append_words<2>(row.offsets, out); }));
  return parts;
}

std::vector<TensorPart> fp8_parts(TensorJob& job, bool tiles) {
  const auto [rows, cols] = std::pair(job.source.rows, job.source.cols);
  const std::string base = stem(job);
  job.row_multiple = tiles ? kTile : 1;
  job.encode = [tiles](const float* values, std::int64_t count, std::int64_t k, float, std::byte* blocks) {
    return tiles ? quant::encode_fp8_tiles(values, count, k, blocks)
                 : quant::encode_fp8_channels(values, count, k, blocks);
  };
  std::vector<TensorPart> parts;
  parts.push_back(
      by_rows(job, base + "weight", "F8_E4M3", {rows, cols}, static_cast<std::uint64_t>(cols), 1, append_codes));
  if (tiles) {
    const std::int64_t across = ceil_div(cols, kTile);
    parts.push_back(by_rows(job, base + "weight_scale_inv", "F32", {ceil_div(rows, kTile), across},
                            static_cast<std::uint64_t>(across) * 4, kTile,
                            [](auto, const SplitRow& row, auto& out) { append_words<4>(row.scales, out); }));
  } else {
    parts.push_back(by_rows(job, base + "weight_scale", "F32", {rows, 1}, 4, 1,
                            [](auto, const SplitRow& row, auto& out) { append(out, row.scales.data(), 4); }));
  }
  return parts;
}

std::vector<TensorPart> packed_parts(const TensorJob& job) {
  const quant::Coding& coding = *job.target.format->coding;
  const std::int64_t shape[] = {job.source.rows, job.source.cols};
  const std::int64_t words = shape[1] * coding.bits / 32;
  const std::int64_t groups = shape[1] / coding.group;
  const std::string base = stem(job);
  std::vector<std::byte> shape_bytes;
  append(shape_bytes, shape, sizeof shape);
  std::vector<TensorPart> parts;
  parts.push_back(by_rows(job, base + "weight_packed", "I32", {shape[0], words}, static_cast<std::uint64_t>(words) * 4,
                          1, append_codes));
  parts.push_back(by_rows(job, base + "weight_scale", "BF16", {shape[0], groups},
                          static_cast<std::uint64_t>(groups) * 2, 1,
                          [](auto, const SplitRow& row, auto& out) { append_as_bf16(row.scales, out); }));
  parts.push_back(constant(base + "weight_shape", "I64", {2}, std::move(shape_bytes)));
  return parts;
}

std::vector<TensorPart> nvfp4_parts(TensorJob& job) {
  const auto [rows, cols] = std::pair(job.source.rows, job.source.cols);
  const std::string base = stem(job);
  const auto divisor = std::make_shared<std::atomic<float>>(1.0f);  // known when the first rows are encoded
  job.wants_peak = true;
  job.encode = [divisor](const float* values, std::int64_t count, std::int64_t k, float peak, std::byte* blocks) {
    divisor->store(quant::nvfp4_divisor(peak));
    quant::encode_nvfp4(values, count, k, divisor->load(), blocks);
  };
  std::vector<TensorPart> parts;
  parts.push_back(by_rows(job, base + "weight_packed", "U8", {rows, cols / 2}, static_cast<std::uint64_t>(cols / 2), 1,
                          append_codes));
  parts.push_back(by_rows(job, base + "weight_scale", "F8_E4M3", {rows, cols / 16},
                          static_cast<std::uint64_t>(cols / 16), 1,
                          [](auto, const SplitRow& row, auto& out) { append_words<1>(row.scales, out); }));
  TensorPart global;
  global.tensor.name = base + "weight_global_scale";
  global.tensor.dtype = "F32";
  global.tensor.shape.assign(1, 1);
  global.tensor.bytes = 4;
  global.bytes_of = [divisor](std::int64_t first, std::int64_t, auto, std::vector<std::byte>& out) {
    const float value = divisor->load();
    if (first == 0) append(out, &value, sizeof value);
    return std::uint64_t{0};
  };
  global.whole = true;
  parts.push_back(std::move(global));
  return parts;
}

std::vector<TensorPart> float_parts(const TensorJob& job) {
  const quant::Format& format = *job.target.format;
  const std::string_view dtype = format.name == "f32" ? "F32" : format.name == "f16" ? "F16" : "BF16";
  const auto row_bytes = static_cast<std::uint64_t>(format.row_bytes(job.source.cols));
  TensorPart part{
      .tensor = {.name = job.target.name, .dtype = dtype, .shape = job.target.shape, .bytes = job.target.bytes()},
      .bytes_of = [row_bytes](std::int64_t first, std::int64_t, std::span<const std::byte> blocks,
                              std::vector<std::byte>& out) {
        out.assign(blocks.begin(), blocks.end());
        return static_cast<std::uint64_t>(first) * row_bytes;
      }};
  std::vector<TensorPart> parts;
  parts.push_back(std::move(part));
  return parts;
}

}  // namespace

bool fits_folder(const QuantizeTarget& target, std::int64_t cols) {
  const quant::Coding* const coding = target.format->coding;
  switch (target.kind) {
    case CheckpointKind::kMlx:
    case CheckpointKind::kPacked:
      return cols % coding->group == 0 && cols * coding->bits % 32 == 0;
    case CheckpointKind::kNvfp4:
      return cols % 16 == 0;
    default:
      return true;
  }
}

std::vector<TensorPart> folder_parts(const QuantizeTarget& target, TensorJob& job) {
  if (job.target.format->block_elements == 1) return float_parts(job);
  switch (target.kind) {
    case CheckpointKind::kMlx:
      return mlx_parts(job);
    case CheckpointKind::kFp8Channel:
      return fp8_parts(job, false);
    case CheckpointKind::kFp8Block:
      return fp8_parts(job, true);
    case CheckpointKind::kPacked:
      return packed_parts(job);
    case CheckpointKind::kNvfp4:
      return nvfp4_parts(job);
    case CheckpointKind::kGguf:
    case CheckpointKind::kFloats:
      break;
  }
  PAGODA_CHECK(false, "{} in a directory", job.target.format->name);
}

}  // namespace pagoda::api
