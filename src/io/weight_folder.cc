#include "io/weight_folder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"

namespace pagoda::io {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += pagoda::format("{}{}", text.empty() ? "" : ", ", size);
  return "(" + text + ")";
}

Result<const TensorEntry*> WeightFolder::need(const std::string& name, const TensorEntry& codes) {
  const TensorEntry* found = part(name);
  if (found != nullptr) return found;
  return fail(ErrorCode::kTensorMissing, "{}: tensor {} has no {} beside it", file_.path(), quoted(codes.name),
              quoted(name));
}

Status WeightFolder::expect(const TensorEntry& entry, std::initializer_list<std::string_view> dtypes,
                            const Shape& shape) const {
  std::string list;
  for (const std::string_view dtype : dtypes) list += pagoda::format("{}{}", list.empty() ? "" : ", ", dtype);
  if (std::ranges::find(dtypes, entry.dtype) == dtypes.end()) {
    return fail(ErrorCode::kFormatUnsupported, "{}: tensor {} is of type {}; {} is wanted", file_.path(),
                quoted(entry.name), entry.dtype, list);
  }
  if (entry.shape == shape) return Ok{};
  return fail(ErrorCode::kTensorShape, "{}: tensor {} has the shape {}; {} is wanted", file_.path(), quoted(entry.name),
              shape_text(entry.shape), shape_text(shape));
}

Status WeightFolder::expect_matrix(const TensorEntry& entry, std::string_view dtype) const {
  if (entry.dtype == dtype && entry.shape.size() == 2 && entry.shape[0] > 0 && entry.shape[1] > 0) return Ok{};
  return fail(ErrorCode::kTensorShape, "{}: tensor {} is of type {} and shape {}; a matrix of {} is wanted",
              file_.path(), quoted(entry.name), entry.dtype, shape_text(entry.shape), dtype);
}

Result<float> WeightFolder::read_scale(const TensorEntry& entry) const {
  if (entry.format == nullptr || entry.rows() * entry.cols() != 1) {
    return fail(ErrorCode::kTensorShape, "{}: tensor {} is of type {} and shape {}; one number is wanted", file_.path(),
                quoted(entry.name), entry.dtype, shape_text(entry.shape));
  }
  float value = 0;
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
  PAGODA_TRY(file_.read_bytes(entry, 0, bytes));
  entry.format->decode_row(bytes.data(), 1, &value);
  if (std::isfinite(value) && value > 0) return value;
  return fail(ErrorCode::kFormatUnsupported, "{}: tensor {} is {}; a scale is positive and finite", file_.path(),
              quoted(entry.name), value);
}

Status WeightFolder::put(const std::string& name, const TensorEntry& codes, Planar planar, Shape outer) {
  if (name != codes.name && file_.tensors().find(name) != nullptr) {
    return unserved(name, pagoda::format("is there twice: as itself, and as the codes {}", quoted(codes.name)));
  }
  TensorEntry entry;
  entry.name = name;
  entry.format = planar.format;
  entry.shape = outer.empty() ? Shape{planar.rows} : std::move(outer);
  entry.shape.push_back(planar.cols);
  entry.file_index = codes.file_index;
  entry.offset = codes.offset;
  entry.bytes = static_cast<std::uint64_t>(planar.rows * planar.format->row_bytes(planar.cols));
  entry.planar = std::make_shared<const Planar>(std::move(planar));
  used_.insert(codes.name);
  folded_.insert_or_assign(codes.name, std::move(entry));
  return Ok{};
}

void WeightFolder::drop(const std::string& module) {
  for (const std::string_view name : {".input_scale", ".input_global_scale", ".input_zero_point"}) {
    part(module + std::string(name));
  }
}

/// Integers of that many bits, or of the next width that has blocks of such groups: more bytes, and the same values.
Result<const quant::Format*> WeightFolder::integers(const std::string& base, int bits, std::int64_t group) const {
  for (const int width : {bits, 4, 8}) {
    if (width < bits) continue;
    for (const int columns : {128, 64, 32}) {
      if (group % columns != 0) continue;
      if (const quant::Format* found = quant::find_format(pagoda::format("packed{}_g{}", width, columns))) return found;
    }
  }
  return unserved(base, pagoda::format("has integers in groups of {} columns; Pagoda reads multiples of 32", group));
}

Result<const quant::Format*> WeightFolder::floats(const std::string& base, std::string_view name,
                                                  std::int64_t group) const {
  if (group % 128 == 0) return quant::find_format(name);
  if (group % 32 == 0) return quant::find_format(pagoda::format("{}_g32", name));
  return unserved(base, pagoda::format("has scales for {} columns each; Pagoda reads multiples of 32", group));
}

/// Which column of the weight each column of its blocks is: groups one after the other. Empty if they already are.
Result<std::vector<std::int32_t>> WeightFolder::column_order(const TensorEntry* g_idx, std::int64_t cols,
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

/// A tensor of scales (rows, columns of scales), (rows), (1) or (), against the scheme where it says a size.
Result<Grid> WeightFolder::grid(const TensorEntry& entry, std::int64_t rows, std::int64_t cols,
                                const QuantScheme* scheme) {
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

}  // namespace pagoda::io
