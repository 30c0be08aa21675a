#include "io/fold_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "base/checked.h"
#include "base/numbers.h"
#include "io/json_config.h"
#include "io/planar.h"
#include "io/quoted.h"
#include "quant/formats/bnb4.h"

namespace pagoda::io {
namespace {

constexpr std::uint64_t kMostSmallBytes = std::uint64_t{64} << 20;  // of a tensor that is read to decide

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += pagoda::format("{}{}", text.empty() ? "" : ", ", size);
  return "(" + text + ")";
}

class Folder {
 public:
  Folder(const ModelFile& file, const Quantization& quantization) : file_(file), quantization_(quantization) {}

  Result<TensorCatalog> run() {
    for (const TensorEntry& entry : file_.tensors().entries()) PAGODA_TRY(visit(entry));
    for (const TensorEntry& entry : file_.tensors().entries()) PAGODA_TRY(visit_scale(entry));
    std::vector<TensorEntry> all;
    for (const TensorEntry& entry : file_.tensors().entries()) {
      const auto made = folded_.find(entry.name);
      if (made != folded_.end()) {
        all.push_back(std::move(made->second));
      } else if (!used_.contains(entry.name)) {
        if (entry.format == nullptr) {
          return fail(ErrorCode::kFormatUnsupported,
                      "{}: tensor {} is of type {}, and no part of a quantised weight; Pagoda reads F32, F16 and BF16",
                      file_.path(), quoted(entry.name), entry.dtype);
        }
        all.push_back(entry);
        all.back().zero = zeros_.contains(entry.name);
      }
    }
    return TensorCatalog(std::move(all), std::move(scalars_));
  }

 private:
  using Shape = std::vector<std::int64_t>;

  Status visit(const TensorEntry& entry);
  Status visit_scale(const TensorEntry& entry);
  Status note_zero_bias(const std::string& base);
  Status gptq(const std::string& base, const TensorEntry& codes);
  Status awq(const std::string& base, const TensorEntry& codes);
  Status packed(const std::string& base, const TensorEntry& codes);
  Status int8(const std::string& base, const TensorEntry& codes);
  Status fp8(const std::string& base, const TensorEntry& codes);
  Status fp4(const std::string& base, const TensorEntry& codes, std::string_view tensor_scale);
  Status bitsandbytes(const std::string& base, const TensorEntry& codes);
  Status mxfp4_blocks(const std::string& base, const TensorEntry& codes);
  Status mlx(const std::string& base, const TensorEntry& codes);

  /// A tensor that belongs to the weight; null if it is not there.
  const TensorEntry* part(const std::string& name) {
    const TensorEntry* found = file_.tensors().find(name);
    if (found != nullptr) used_.insert(found->name);
    return found;
  }
  Result<const TensorEntry*> need(const std::string& name, const TensorEntry& codes) {
    const TensorEntry* found = part(name);
    if (found != nullptr) return found;
    return fail(ErrorCode::kTensorMissing, "{}: tensor {} has no {} beside it", file_.path(), quoted(codes.name),
                quoted(name));
  }
  Status expect(const TensorEntry& entry, std::initializer_list<std::string_view> dtypes, const Shape& shape) const {
    std::string list;
    for (const std::string_view dtype : dtypes) list += pagoda::format("{}{}", list.empty() ? "" : ", ", dtype);
    if (std::ranges::find(dtypes, entry.dtype) == dtypes.end()) {
      return fail(ErrorCode::kFormatUnsupported, "{}: tensor {} is of type {}; {} is wanted", file_.path(),
                  quoted(entry.name), entry.dtype, list);
    }
    if (entry.shape == shape) return Ok{};
    return fail(ErrorCode::kTensorShape, "{}: tensor {} has the shape {}; {} is wanted", file_.path(),
                quoted(entry.name), shape_text(entry.shape), shape_text(shape));
  }
  Error unserved(const std::string& base, std::string_view what) const {
    return fail(ErrorCode::kFormatUnsupported, "{}: the weight {} {}", file_.path(), quoted(base), what);
  }
  Status expect_matrix(const TensorEntry& entry, std::string_view dtype) const {
    if (entry.dtype == dtype && entry.shape.size() == 2 && entry.shape[0] > 0 && entry.shape[1] > 0) return Ok{};
    return fail(ErrorCode::kTensorShape, "{}: tensor {} is of type {} and shape {}; a matrix of {} is wanted",
                file_.path(), quoted(entry.name), entry.dtype, shape_text(entry.shape), dtype);
  }

  template <class T>
  Result<std::vector<T>> read(const TensorEntry& entry) const {
    if (entry.bytes > kMostSmallBytes || entry.bytes % sizeof(T) != 0) {
      return fail(ErrorCode::kTensorShape, "{}: tensor {} has {} bytes", file_.path(), quoted(entry.name), entry.bytes);
    }
    std::vector<T> values(static_cast<std::size_t>(entry.bytes / sizeof(T)));
    PAGODA_TRY(file_.read_bytes(entry, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  /// The one number of a tensor: positive and finite.
  Result<float> read_scale(const TensorEntry& entry) const {
    if (entry.format == nullptr || entry.rows() * entry.cols() != 1) {
      return fail(ErrorCode::kTensorShape, "{}: tensor {} is of type {} and shape {}; one number is wanted",
                  file_.path(), quoted(entry.name), entry.dtype, shape_text(entry.shape));
    }
    float value = 0;
    std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
    PAGODA_TRY(file_.read_bytes(entry, 0, bytes));
    entry.format->decode_row(bytes.data(), 1, &value);
    if (std::isfinite(value) && value > 0) return value;
    return fail(ErrorCode::kFormatUnsupported, "{}: tensor {} is {}; a scale is positive and finite", file_.path(),
                quoted(entry.name), value);
  }

  void put(const std::string& base, const TensorEntry& codes, Planar planar, Shape outer = {}) {
    TensorEntry entry;
    entry.name = base;
    entry.format = planar.format;
    entry.shape = outer.empty() ? Shape{planar.rows} : std::move(outer);
    entry.shape.push_back(planar.cols);
    entry.file_index = codes.file_index;
    entry.offset = codes.offset;
    entry.bytes = static_cast<std::uint64_t>(planar.rows * planar.format->row_bytes(planar.cols));
    entry.planar = std::make_shared<const Planar>(std::move(planar));
    used_.insert(codes.name);
    folded_.insert_or_assign(codes.name, std::move(entry));
  }

  /// What no result of ours depends on: activations are exact.
  void drop(const std::string& module) {
    for (const std::string_view name : {".input_scale", ".input_global_scale", ".input_zero_point"}) {
      part(module + std::string(name));
    }
  }

  Result<const quant::Format*> integers(const std::string& base, int bits, std::int64_t group) const;
  Result<const quant::Format*> floats(const std::string& base, std::string_view name, std::int64_t group) const;
  Result<std::vector<std::int32_t>> column_order(const TensorEntry* g_idx, std::int64_t cols, std::int64_t group) const;
  Result<Grid> grid(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, const QuantScheme* scheme);

  const ModelFile& file_;
  const Quantization& quantization_;
  std::set<std::string, std::less<>> used_;
  std::set<std::string, std::less<>> zeros_;
  std::map<std::string, float, std::less<>> scalars_;
  std::map<std::string, TensorEntry, std::less<>> folded_;  // by the name of their codes
};

/// Integers of that many bits, or of the next width that has blocks of such groups: more bytes, and the same values.
Result<const quant::Format*> Folder::integers(const std::string& base, int bits, std::int64_t group) const {
  for (const int width : {bits, 4, 8}) {
    if (width < bits) continue;
    for (const int columns : {128, 64, 32}) {
      if (group % columns != 0) continue;
      if (const quant::Format* found = quant::find_format(pagoda::format("packed{}_g{}", width, columns))) return found;
    }
  }
  return unserved(base, pagoda::format("has integers in groups of {} columns; Pagoda reads multiples of 32", group));
}

Result<const quant::Format*> Folder::floats(const std::string& base, std::string_view name, std::int64_t group) const {
  if (group % 128 == 0) return quant::find_format(name);
  if (group % 32 == 0) return quant::find_format(pagoda::format("{}_g32", name));
  return unserved(base, pagoda::format("has scales for {} columns each; Pagoda reads multiples of 32", group));
}

/// Which column of the weight each column of its blocks is: groups one after the other. Empty if they already are.
Result<std::vector<std::int32_t>> Folder::column_order(const TensorEntry* g_idx, std::int64_t cols,
                                                       std::int64_t group) const {
  std::vector<std::int32_t> order;
  if (g_idx == nullptr) return order;
  PAGODA_TRY(expect(*g_idx, {"I32"}, {cols}));
  const std::vector<std::int32_t> of = PAGODA_TRY(read<std::int32_t>(*g_idx));
  order.resize(of.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](std::int32_t column) { return std::pair(of[static_cast<std::size_t>(column)], column); });
  bool plain = true;
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int32_t column = order[static_cast<std::size_t>(c)];
    plain = plain && column == c;
    if (of[static_cast<std::size_t>(column)] == c / group) continue;
    return fail(ErrorCode::kFormatUnsupported,
                "{}: tensor {} gives group {} another number of columns than the {} of the configuration", file_.path(),
                quoted(g_idx->name), of[static_cast<std::size_t>(column)], group);
  }
  if (plain) order.clear();
  return order;
}

Status Folder::gptq(const std::string& base, const TensorEntry& codes) {
  const QuantScheme& scheme = quantization_.schemes.front();
  const int bits = static_cast<int>(scheme.bits);
  PAGODA_TRY(expect_matrix(codes, "I32"));
  if (codes.shape[0] * 32 % bits != 0) {
    return unserved(base, pagoda::format("has {} words a row, no whole number of {} bits", codes.shape[0], bits));
  }
  Planar planar{.format = nullptr, .rows = codes.shape[1], .cols = codes.shape[0] * 32 / bits};
  const std::int64_t group = scheme.group > 0 ? scheme.group : round_up<std::int64_t>(planar.cols, 128);
  const std::int64_t groups = ceil_div(planar.cols, group);
  planar.format = PAGODA_TRY(integers(base, bits, group));
  const TensorEntry* scales = PAGODA_TRY(need(base + ".scales", codes));
  const TensorEntry* zeros = PAGODA_TRY(need(base + ".qzeros", codes));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, {groups, planar.rows}));
  PAGODA_TRY(expect(*zeros, {"I32"}, {groups, ceil_div<std::int64_t>(planar.rows * bits, 32)}));
  planar.order = PAGODA_TRY(column_order(part(base + ".g_idx"), planar.cols, group));
  planar.codes = gptq_codes(codes, planar.rows, planar.cols, bits, planar.format->bits, planar.order);
  planar.scales = grid_words({.entry = *scales,
                              .type = WordType::kShortFloat,
                              .rows = planar.rows,
                              .cols = planar.cols,
                              .cols_each = group,
                              .transposed = true},
                             planar.format->group);
  planar.offsets = packed_zeros({.entry = *zeros,
                                 .rows = planar.rows,
                                 .cols = planar.cols,
                                 .cols_each = group,
                                 .bits = bits,
                                 .plus = quantization_.zeros_less_one ? 1u : 0u},
                                planar.format->group);
  put(base + ".weight", codes, std::move(planar));
  return note_zero_bias(base);
}

/// Some writers give every product a bias, of zeros where the model has none.
Status Folder::note_zero_bias(const std::string& base) {
  const TensorEntry* bias = file_.tensors().find(base + ".bias");
  if (bias == nullptr || bias->format == nullptr) return Ok{};
  const std::vector<std::uint8_t> bytes = PAGODA_TRY(read<std::uint8_t>(*bias));
  if (std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; })) zeros_.insert(bias->name);
  return Ok{};
}

Status Folder::awq(const std::string& base, const TensorEntry& codes) {
  PAGODA_TRY(expect_matrix(codes, "I32"));
  Planar planar{.format = nullptr, .rows = codes.shape[1] * 8, .cols = codes.shape[0]};
  const QuantScheme& scheme = quantization_.schemes.front();
  const std::int64_t group = scheme.group > 0 ? scheme.group : round_up<std::int64_t>(planar.cols, 128);
  const std::int64_t groups = ceil_div(planar.cols, group);
  planar.format = PAGODA_TRY(integers(base, 4, group));
  const TensorEntry* scales = PAGODA_TRY(need(base + ".scales", codes));
  const TensorEntry* zeros = PAGODA_TRY(need(base + ".qzeros", codes));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, {groups, planar.rows}));
  PAGODA_TRY(expect(*zeros, {"I32"}, {groups, planar.rows / 8}));
  planar.codes = awq_codes(codes, planar.rows, planar.cols);
  planar.scales = grid_words({.entry = *scales,
                              .type = WordType::kShortFloat,
                              .rows = planar.rows,
                              .cols = planar.cols,
                              .cols_each = group,
                              .transposed = true},
                             planar.format->group);
  planar.offsets = packed_zeros(
      {.entry = *zeros, .rows = planar.rows, .cols = planar.cols, .cols_each = group, .bits = 4, .lanes = true},
      planar.format->group);
  put(base + ".weight", codes, std::move(planar));
  return Ok{};
}

/// A tensor of scales (rows, columns of scales), (rows), (1) or (), against the scheme where it says a size.
Result<Grid> Folder::grid(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, const QuantScheme* scheme) {
  Grid grid{
      .entry = entry, .rows = rows, .cols = cols, .rows_each = rows, .cols_each = round_up<std::int64_t>(cols, 128)};
  std::int64_t count = 1;
  for (const std::int64_t size : entry.shape) count *= size;
  if (count == 1) return grid;
  grid.rows_each = 1;
  if (entry.shape == Shape{rows} || entry.shape == Shape{rows, 1}) return grid;
  if (scheme != nullptr && scheme->block_cols > 0) {
    grid.rows_each = scheme->block_rows;
    grid.cols_each = scheme->block_cols;
  } else if (scheme != nullptr && scheme->group > 0) {
    grid.cols_each = scheme->group;
  } else {
    return fail(ErrorCode::kTensorShape,
                "{}: tensor {} has the shape {}, and the configuration says no size of groups or blocks", file_.path(),
                quoted(entry.name), shape_text(entry.shape));
  }
  const Shape wanted{ceil_div(rows, grid.rows_each), ceil_div(cols, grid.cols_each)};
  if (entry.shape == wanted) return grid;
  return fail(ErrorCode::kTensorShape, "{}: tensor {} has the shape {}; with the sizes of the configuration it is {}",
              file_.path(), quoted(entry.name), shape_text(entry.shape), shape_text(wanted));
}

/// compressed-tensors, pack-quantized.
Status Folder::packed(const std::string& base, const TensorEntry& codes) {
  const QuantScheme* scheme = PAGODA_TRY(quantization_.scheme_of(base));
  if (scheme == nullptr) return unserved(base, "is packed, but no group of the configuration names it");
  const TensorEntry* shape = PAGODA_TRY(need(base + ".weight_shape", codes));
  std::vector<std::int64_t> sizes;
  if (shape->dtype == "I64") {
    sizes = PAGODA_TRY(read<std::int64_t>(*shape));
  } else if (shape->dtype == "I32") {
    for (const std::int32_t size : PAGODA_TRY(read<std::int32_t>(*shape))) sizes.push_back(size);
  }
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
    return fail(ErrorCode::kTensorShape, "{}: tensor {} has to hold two positive integers", file_.path(),
                quoted(shape->name));
  }
  const int bits = static_cast<int>(scheme->bits);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    return unserved(base, pagoda::format("is packed in {} bits; Pagoda reads 2, 3, 4 and 8", bits));
  }
  Planar planar{.format = nullptr, .rows = sizes[0], .cols = sizes[1]};
  PAGODA_TRY(expect(codes, {"I32"}, {planar.rows, ceil_div<std::int64_t>(planar.cols * bits, 32)}));
  const TensorEntry* scales = PAGODA_TRY(need(base + ".weight_scale", codes));
  Grid scale_grid = PAGODA_TRY(grid(*scales, planar.rows, planar.cols, scheme));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, scales->shape));
  scale_grid.type = WordType::kShortFloat;
  planar.format = PAGODA_TRY(integers(base, bits, scale_grid.cols_each));
  const TensorEntry* g_idx = part(base + ".weight_g_idx");
  planar.order = PAGODA_TRY(column_order(g_idx, planar.cols, scale_grid.cols_each));
  if (planar.order.empty()) {
    planar.codes = row_codes(codes, planar.rows, planar.cols, bits, planar.format->bits, CodeOrder::kPlain);
  } else {
    planar.codes = ordered_codes(codes, planar.rows, planar.cols, bits, planar.format->bits, planar.order);
  }
  if (const TensorEntry* zeros = part(base + ".weight_zero_point")) {
    PAGODA_TRY(expect(*zeros, {"I32"},
                      {ceil_div<std::int64_t>(planar.rows * bits, 32), ceil_div(planar.cols, scale_grid.cols_each)}));
    if (scale_grid.rows_each != 1) return unserved(base, "has zero points of more than one row each");
    planar.offsets = packed_zeros({.entry = *zeros,
                                   .rows = planar.rows,
                                   .cols = planar.cols,
                                   .cols_each = scale_grid.cols_each,
                                   .bits = bits,
                                   .by_words = true},
                                  planar.format->group);
  } else {
    if (!scheme->symmetric) return unserved(base, "is asymmetric, and has no weight_zero_point");
    planar.offsets = constant_words(1u << (bits - 1));
  }
  planar.scales = grid_words(std::move(scale_grid), planar.format->group);
  drop(base);
  put(base + ".weight", codes, std::move(planar));
  return Ok{};
}

/// compressed-tensors, int-quantized.
Status Folder::int8(const std::string& base, const TensorEntry& codes) {
  PAGODA_TRY(expect_matrix(codes, "I8"));
  const QuantScheme* scheme = PAGODA_TRY(quantization_.scheme_of(base));
  Planar planar{.format = nullptr, .rows = codes.shape[0], .cols = codes.shape[1]};
  const TensorEntry* scales = PAGODA_TRY(need(base + ".weight_scale", codes));
  Grid scale_grid = PAGODA_TRY(grid(*scales, planar.rows, planar.cols, scheme));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, scales->shape));
  scale_grid.type = WordType::kShortFloat;
  planar.format = PAGODA_TRY(integers(base, 8, scale_grid.cols_each));
  planar.codes = row_codes(codes, planar.rows, planar.cols, 8, 8, CodeOrder::kSigned);
  if (const TensorEntry* zeros = part(base + ".weight_zero_point")) {
    PAGODA_TRY(expect(*zeros, {"I8"}, scales->shape));
    Grid zero_grid = scale_grid;
    zero_grid.entry = *zeros;
    zero_grid.type = WordType::kSignedByte;
    planar.offsets = grid_words(std::move(zero_grid), planar.format->group);
  } else {
    planar.offsets = constant_words(128);
  }
  planar.scales = grid_words(std::move(scale_grid), planar.format->group);
  drop(base);
  put(base + ".weight", codes, std::move(planar));
  return Ok{};
}

Status Folder::fp8(const std::string& base, const TensorEntry& codes) {
  PAGODA_TRY(expect_matrix(codes, codes.dtype));
  Planar planar{.format = nullptr, .rows = codes.shape[0], .cols = codes.shape[1]};
  // Both names are those of a multiplier.
  const TensorEntry* scales = part(base + ".weight_scale");
  const TensorEntry* inverse = part(base + ".weight_scale_inv");
  if (scales != nullptr && inverse != nullptr) {
    return unserved(base, "has both a weight_scale and a weight_scale_inv; one of them is wanted");
  }
  if (scales == nullptr) scales = inverse;
  const std::string_view name = codes.dtype == "F8_E5M2" ? "fp8_e5m2" : "fp8_e4m3";
  if (scales == nullptr) {
    planar.format = quant::find_format(name);
    planar.scales = constant_words(bits_of_float(1.0f));
  } else if (scales->dtype == "U8" || scales->dtype == "F8_E8M0") {
    if (codes.dtype != "F8_E4M3") return unserved(base, "is MXFP8 of e5m2; Pagoda reads e4m3");
    PAGODA_TRY(expect(*scales, {"U8", "F8_E8M0"}, {planar.rows, ceil_div<std::int64_t>(planar.cols, 32)}));
    planar.format = quant::find_format("mxfp8");
    planar.scales = grid_words(
        {.entry = *scales, .type = WordType::kE8m0, .rows = planar.rows, .cols = planar.cols, .cols_each = 32}, 32);
  } else {
    PAGODA_TRY(expect(*scales, {"F32", "BF16", "F16"}, scales->shape));
    const QuantScheme* scheme = PAGODA_TRY(quantization_.scheme_of(base));
    Grid scale_grid = PAGODA_TRY(grid(*scales, planar.rows, planar.cols, scheme));
    planar.format = PAGODA_TRY(floats(base, name, scale_grid.cols_each));
    planar.scales = grid_words(std::move(scale_grid), planar.format->group);
  }
  planar.codes = row_codes(codes, planar.rows, planar.cols, 8, 8, CodeOrder::kPlain);
  drop(base);
  put(base + ".weight", codes, std::move(planar));
  return Ok{};
}

/// Bytes of two e2m1: NVFP4, in ModelOpt's direction (`weight_scale_2`, a multiplier) and in compressed-tensors'
/// (`weight_global_scale`, a divisor), or MXFP4 of compressed-tensors, which has neither.
Status Folder::fp4(const std::string& base, const TensorEntry& codes, std::string_view tensor_scale) {
  PAGODA_TRY(expect_matrix(codes, "U8"));
  Planar planar{.format = nullptr, .rows = codes.shape[0], .cols = codes.shape[1] * 2};
  const TensorEntry* scales = PAGODA_TRY(need(base + ".weight_scale", codes));
  const bool mx = scales->dtype == "U8" || scales->dtype == "F8_E8M0";
  const std::int64_t group = mx ? 32 : 16;
  PAGODA_TRY(expect(*scales, {"F8_E4M3", "U8", "F8_E8M0"}, {planar.rows, ceil_div(planar.cols, group)}));
  planar.format = quant::find_format(mx ? "mxfp4" : "nvfp4");
  if (!planar.format->fits(planar.cols)) {
    return unserved(base, pagoda::format("has {} columns, no multiple of the {} of MXFP4", planar.cols, group));
  }
  if (!mx) {
    const TensorEntry* global = PAGODA_TRY(need(base + std::string(tensor_scale), codes));
    const float scale = PAGODA_TRY(read_scale(*global));
    planar.super = bits_of_float(tensor_scale == ".weight_global_scale" ? 1.0f / scale : scale);
  }
  planar.codes = row_codes(codes, planar.rows, planar.cols, 4, 4, CodeOrder::kPlain);
  planar.scales = grid_words({.entry = *scales,
                              .type = mx ? WordType::kE8m0 : WordType::kE4m3,
                              .rows = planar.rows,
                              .cols = planar.cols,
                              .cols_each = group},
                             planar.format->group);
  drop(base);
  put(base + ".weight", codes, std::move(planar));
  return Ok{};
}

/// gpt-oss: (…, rows, groups, 16) bytes of codes, (…, rows, groups) of scales.
Status Folder::mxfp4_blocks(const std::string& base, const TensorEntry& codes) {
  const TensorEntry* scales = PAGODA_TRY(need(base + "_scales", codes));
  if (codes.dtype != "U8" || codes.shape.size() < 3 || codes.shape.back() != 16) {
    return fail(ErrorCode::kTensorShape, "{}: tensor {} is of type {} and shape {}; (rows, groups, 16) of U8 is wanted",
                file_.path(), quoted(codes.name), codes.dtype, shape_text(codes.shape));
  }
  PAGODA_TRY(expect(*scales, {"U8", "F8_E8M0"}, Shape(codes.shape.begin(), codes.shape.end() - 1)));
  Shape outer(codes.shape.begin(), codes.shape.end() - 2);
  Planar planar{.format = quant::find_format("mxfp4"), .rows = 1, .cols = codes.shape[codes.shape.size() - 2] * 32};
  for (const std::int64_t size : outer) planar.rows *= size;
  planar.codes = row_codes(codes, planar.rows, planar.cols, 4, 4, CodeOrder::kPlain);
  planar.scales = grid_words(
      {.entry = *scales, .type = WordType::kE8m0, .rows = planar.rows, .cols = planar.cols, .cols_each = 32}, 32);
  const bool linear = file_.tensors().find(base + ".weight") == nullptr && outer.size() == 1;
  put(linear ? base + ".weight" : base, codes, std::move(planar), std::move(outer));
  return Ok{};
}

Status Folder::bitsandbytes(const std::string& base, const TensorEntry& codes) {
  const std::string weight = base + ".weight";
  const TensorEntry* state = part(weight + ".quant_state.bitsandbytes__nf4");
  const bool nf4 = state != nullptr;
  if (state == nullptr) state = part(weight + ".quant_state.bitsandbytes__fp4");
  if (state == nullptr) return unserved(base, "is of U8, and has no quant_state of bitsandbytes' nf4 or fp4");
  const std::vector<char> json = PAGODA_TRY(read<char>(*state));
  const RawConfig keys = PAGODA_TRY(parse_json_config(state->name, {json.data(), json.size()}));
  const auto shape = PAGODA_TRY(keys.integers("shape", 1, std::int64_t{1} << 40));
  const std::int64_t block = PAGODA_TRY(keys.integer("blocksize", 1, 1 << 20));
  if (shape.size() != 2) return unserved(base, "is no matrix");
  Planar planar{.format = quant::find_format(nf4 ? "bnb_nf4" : "bnb_fp4"), .rows = shape[0], .cols = shape[1]};
  if (planar.cols % 64 != 0 || block % 64 != 0) {
    return unserved(base,
                    pagoda::format("has {} columns in blocks of {}; Pagoda reads bitsandbytes' with multiples of 64",
                                   planar.cols, block));
  }
  if (codes.dtype != "U8" || static_cast<std::int64_t>(codes.bytes) * 2 != planar.rows * planar.cols) {
    return fail(ErrorCode::kTensorShape, "{}: tensor {} has {} bytes of type {}; U8 for {} x {} codes is wanted",
                file_.path(), quoted(codes.name), codes.bytes, codes.dtype, planar.rows, planar.cols);
  }
  const TensorEntry* map = PAGODA_TRY(need(weight + ".quant_map", codes));
  PAGODA_TRY(expect(*map, {"F32"}, {16}));
  const std::vector<float> table = PAGODA_TRY(read<float>(*map));
  for (int i = 0; i < 16; ++i) {
    const float known = nf4 ? quant::Nf4Table::value(i) : quant::Fp4Table::value(i);
    if (table[static_cast<std::size_t>(i)] == known) continue;
    return fail(ErrorCode::kFormatUnsupported, "{}: tensor {} has {} for code {}; the table of {} has {}", file_.path(),
                quoted(map->name), table[static_cast<std::size_t>(i)], i, planar.format->name, known);
  }
  const TensorEntry* absmax = PAGODA_TRY(need(weight + ".absmax", codes));
  const std::int64_t blocks = ceil_div(planar.rows * planar.cols, block);
  planar.codes = row_codes(codes, planar.rows, planar.cols, 4, 4, CodeOrder::kHighNibbleFirst);
  if (absmax->dtype == "F32") {
    PAGODA_TRY(expect(*absmax, {"F32"}, {blocks}));
    planar.scales = flat_words(*absmax, planar.cols, block, {});
  } else {
    PAGODA_TRY(expect(*absmax, {"U8"}, {blocks}));
    Nested nested;
    nested.block = PAGODA_TRY(keys.integer("nested_blocksize", 1, 1 << 20));
    nested.offset = static_cast<float>(PAGODA_TRY(keys.number("nested_offset", -1e30, 1e30)));
    const TensorEntry* scales = PAGODA_TRY(need(weight + ".nested_absmax", codes));
    const TensorEntry* codebook = PAGODA_TRY(need(weight + ".nested_quant_map", codes));
    PAGODA_TRY(expect(*scales, {"F32"}, {ceil_div(blocks, nested.block)}));
    PAGODA_TRY(expect(*codebook, {"F32"}, {256}));
    nested.absmax = PAGODA_TRY(read<float>(*scales));
    nested.table = PAGODA_TRY(read<float>(*codebook));
    planar.scales = flat_words(*absmax, planar.cols, block, std::move(nested));
  }
  put(weight, codes, std::move(planar));
  return Ok{};
}

Status Folder::mlx(const std::string& base, const TensorEntry& codes) {
  const RawConfig& config = file_.config();
  QuantScheme scheme = quantization_.schemes.front();
  std::string mode = quantization_.mode;
  const std::string own = quantization_.prefix + base + ".";
  if (config.contains_prefix(own)) {
    scheme.bits = PAGODA_TRY(config.integer_or(own + "bits", scheme.bits, 1, 8));
    scheme.group = PAGODA_TRY(config.integer_or(own + "group_size", scheme.group, 1, 1 << 20));
    mode = PAGODA_TRY(config.text_or(own + "mode", mode));
  }
  PAGODA_TRY(expect_matrix(codes, "U32"));
  const int bits = static_cast<int>(scheme.bits);
  if (codes.shape[1] * 32 % bits != 0) {
    return unserved(base, pagoda::format("has {} words a row, no whole number of {} bits", codes.shape[1], bits));
  }
  Planar planar{.format = nullptr, .rows = codes.shape[0], .cols = codes.shape[1] * 32 / bits};
  const Shape groups{planar.rows, ceil_div(planar.cols, scheme.group)};
  const TensorEntry* scales = PAGODA_TRY(need(base + ".scales", codes));
  Grid scale_grid{.entry = *scales, .rows = planar.rows, .cols = planar.cols, .cols_each = scheme.group};
  if (mode == "affine") {
    const TensorEntry* biases = PAGODA_TRY(need(base + ".biases", codes));
    PAGODA_TRY(expect(*scales, {"BF16", "F16"}, groups));
    PAGODA_TRY(expect(*biases, {scales->dtype}, groups));
    const bool half = scales->dtype == "F16";
    for (const int width : {bits, 4, 8}) {
      if (width < bits) continue;
      planar.format = quant::find_format(pagoda::format("affine{}_g{}{}", width, scheme.group, half ? "_f16" : ""));
      if (planar.format != nullptr) break;
    }
    scale_grid.type = WordType::kHalf;
    if (planar.format != nullptr) {
      Grid bias_grid = scale_grid;
      bias_grid.entry = *biases;
      planar.offsets = grid_words(std::move(bias_grid), planar.format->group);
    }
  } else {
    const bool nv = mode == "nvfp4";
    if (scheme.bits != (mode == "mxfp8" ? 8 : 4) || scheme.group != (nv ? 16 : 32)) {
      return unserved(base, pagoda::format("is {} of {} bits and groups of {}", mode, bits, scheme.group));
    }
    PAGODA_TRY(expect(*scales, {"U8"}, groups));
    planar.format = quant::find_format(mode);
    scale_grid.type = nv ? WordType::kE4m3 : WordType::kE8m0;
    planar.super = bits_of_float(1.0f);
  }
  if (planar.format == nullptr) {
    return unserved(base, pagoda::format("is {} of {} bits and groups of {}; Pagoda reads 2, 3, 4, 5, 6 and 8 bits and "
                                         "groups of 32, 64 and 128",
                                         mode, bits, scheme.group));
  }
  planar.codes = row_codes(codes, planar.rows, planar.cols, bits, planar.format->bits, CodeOrder::kPlain);
  planar.scales = grid_words(std::move(scale_grid), planar.format->group);
  put(base + ".weight", codes, std::move(planar));
  return Ok{};
}

/// Whether the tensor holds the codes of a weight, and of which.
Status Folder::visit(const TensorEntry& entry) {
  const std::string& name = entry.name;
  const auto base = [&](std::string_view suffix) { return name.substr(0, name.size() - suffix.size()); };
  const auto beside = [&](std::string_view suffix) {
    return file_.tensors().find(base(".weight") + std::string(suffix)) != nullptr;
  };
  switch (quantization_.method) {
    case QuantMethod::kNone:
      return Ok{};
    case QuantMethod::kGptq:
      return name.ends_with(".qweight") ? gptq(base(".qweight"), entry) : Status(Ok{});
    case QuantMethod::kAwq:
      return name.ends_with(".qweight") ? awq(base(".qweight"), entry) : Status(Ok{});
    case QuantMethod::kBitsAndBytes:
      return name.ends_with(".weight") && entry.dtype == "U8" ? bitsandbytes(base(".weight"), entry) : Status(Ok{});
    case QuantMethod::kMxfp4:
      return name.ends_with("_blocks") ? mxfp4_blocks(base("_blocks"), entry) : Status(Ok{});
    case QuantMethod::kMlx:
      if (!name.ends_with(".weight")) return Ok{};
      if (entry.dtype == "U32") return mlx(base(".weight"), entry);
      // "a.module": false says that it is not quantised, as its tensor does.
      PAGODA_TRY(file_.config().boolean_or(quantization_.prefix + base(".weight"), false));
      return Ok{};
    case QuantMethod::kFp8:
    case QuantMethod::kModelOpt:
    case QuantMethod::kCompressedTensors:
      break;
  }
  if (name.ends_with(".weight_packed")) {
    const std::string module = base(".weight_packed");
    return entry.dtype == "U8" ? fp4(module, entry, ".weight_global_scale") : packed(module, entry);
  }
  if (!name.ends_with(".weight")) return Ok{};
  if (entry.dtype == "F8_E4M3" || entry.dtype == "F8_E5M2") return fp8(base(".weight"), entry);
  if (entry.dtype == "I8") return int8(base(".weight"), entry);
  if (entry.dtype == "U8" && beside(".weight_scale_2")) return fp4(base(".weight"), entry, ".weight_scale_2");
  return Ok{};
}

/// Scales of an fp8 cache, and of activations inside attention, which stay exact.
Status Folder::visit_scale(const TensorEntry& entry) {
  const auto is = [&](std::string_view suffix) { return entry.name.ends_with(suffix); };
  if (is(".q_scale") || is(".prob_scale") || is(".q_proj.output_scale")) {
    used_.insert(entry.name);
  } else if (is(".k_scale") || is(".v_scale") || is(".kv_scale") || is(".k_proj.output_scale") ||
             is(".v_proj.output_scale")) {
    scalars_.emplace(entry.name, PAGODA_TRY(read_scale(entry)));
    used_.insert(entry.name);
  }
  return Ok{};
}

}  // namespace

Result<TensorCatalog> fold_weights(const ModelFile& file, const Quantization& quantization) {
  return Folder(file, quantization).run();
}

}  // namespace pagoda::io
