// Packed integers: GPTQ, AWQ, and those of compressed-tensors.
#include <algorithm>

#include "base/checked.h"
#include "io/weight_folder.h"

namespace pagoda::io {
namespace {

constexpr std::int64_t kMostColumns = std::int64_t{1} << 40;  // so that no count of bits overflows

/// Columns that share a scale in files of GPTQ and AWQ: where none are named, all of a row, up to whole blocks.
std::int64_t columns_each(const QuantScheme& scheme, std::int64_t cols) {
  return scheme.group > 0 ? scheme.group : round_up<std::int64_t>(cols, 128);
}

/// Their scales, (groups, rows).
ReadWords group_scales(const TensorEntry& scales, const Planar& planar, std::int64_t group) {
  return grid_words({.entry = scales,
                     .type = WordType::kShortFloat,
                     .rows = planar.rows,
                     .cols = planar.cols,
                     .cols_each = group,
                     .transposed = true},
                    planar.format->group);
}

}  // namespace

Status WeightFolder::gptq(const std::string& base, const TensorEntry& codes) {
  const QuantScheme& scheme = quantization_.schemes.front();
  const int bits = static_cast<int>(scheme.bits);
  PAGODA_TRY(expect_matrix(codes, "I32"));
  if (codes.shape[0] * 32 % bits != 0) {
    return unserved(base, pagoda::format("has {} words a row, no whole number of {} bits", codes.shape[0], bits));
  }
  Planar planar{.format = nullptr, .rows = codes.shape[1], .cols = codes.shape[0] * 32 / bits};
  const std::int64_t group = columns_each(scheme, planar.cols);
  const std::int64_t groups = ceil_div(planar.cols, group);
  planar.format = PAGODA_TRY(integers(base, bits, group));
  const TensorEntry* scales = PAGODA_TRY(need(base + ".scales", codes));
  const TensorEntry* zeros = PAGODA_TRY(need(base + ".qzeros", codes));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, {groups, planar.rows}));
  PAGODA_TRY(expect(*zeros, {"I32"}, {groups, ceil_div<std::int64_t>(planar.rows * bits, 32)}));
  const TensorEntry* g_idx = part(base + ".g_idx");
  if (g_idx == nullptr && scheme.ordered) return unserved(base, "is of act-order (desc_act), and has no g_idx");
  planar.order = PAGODA_TRY(column_order(g_idx, planar.cols, group));
  planar.codes = gptq_codes(codes, planar.rows, planar.cols, bits, planar.format->bits, planar.order);
  planar.scales = group_scales(*scales, planar, group);
  planar.offsets = packed_zeros({.entry = *zeros,
                                 .rows = planar.rows,
                                 .cols = planar.cols,
                                 .cols_each = group,
                                 .bits = bits,
                                 .plus = quantization_.zeros_less_one ? 1u : 0u},
                                planar.format->group);
  PAGODA_TRY(put(base + ".weight", codes, std::move(planar)));
  return note_zero_bias(base);
}

/// Some writers give every product a bias, of zeros where the model has none.
Status WeightFolder::note_zero_bias(const std::string& base) {
  const TensorEntry* bias = file_.tensors().find(base + ".bias");
  if (bias == nullptr || bias->format == nullptr) return Ok{};
  const std::vector<std::uint8_t> bytes = PAGODA_TRY(read<std::uint8_t>(*bias));
  if (std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; })) zeros_.insert(bias->name);
  return Ok{};
}

Status WeightFolder::awq(const std::string& base, const TensorEntry& codes) {
  PAGODA_TRY(expect_matrix(codes, "I32"));
  Planar planar{.format = nullptr, .rows = codes.shape[1] * 8, .cols = codes.shape[0]};
  const QuantScheme& scheme = quantization_.schemes.front();
  const std::int64_t group = columns_each(scheme, planar.cols);
  const std::int64_t groups = ceil_div(planar.cols, group);
  planar.format = PAGODA_TRY(integers(base, 4, group));
  const TensorEntry* scales = PAGODA_TRY(need(base + ".scales", codes));
  const TensorEntry* zeros = PAGODA_TRY(need(base + ".qzeros", codes));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, {groups, planar.rows}));
  PAGODA_TRY(expect(*zeros, {"I32"}, {groups, planar.rows / 8}));
  planar.codes = awq_codes(codes, planar.rows, planar.cols);
  planar.scales = group_scales(*scales, planar, group);
  planar.offsets = packed_zeros(
      {.entry = *zeros, .rows = planar.rows, .cols = planar.cols, .cols_each = group, .bits = 4, .lanes = true},
      planar.format->group);
  return put(base + ".weight", codes, std::move(planar));
}

/// compressed-tensors, pack-quantized.
Status WeightFolder::packed(const std::string& base, const TensorEntry& codes) {
  const QuantScheme* scheme = PAGODA_TRY(quantization_.scheme_of(base));
  if (scheme == nullptr) return unserved(base, "is packed, but no group of the configuration names it");
  const TensorEntry* shape = PAGODA_TRY(need(base + ".weight_shape", codes));
  std::vector<std::int64_t> sizes;
  if (shape->dtype == "I64") {
    sizes = PAGODA_TRY(read<std::int64_t>(*shape));
  } else if (shape->dtype == "I32") {
    for (const std::int32_t size : PAGODA_TRY(read<std::int32_t>(*shape))) sizes.push_back(size);
  }
  if (sizes.size() != 2 || std::ranges::any_of(sizes, [](auto size) { return size < 1 || size > kMostColumns; })) {
    return fail(ErrorCode::kTensorShape, "{}: tensor {} has to hold two integers from 1 to {}", file_.path(),
                quoted(shape->name), kMostColumns);
  }
  const int bits = static_cast<int>(scheme->bits);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    return unserved(base, pagoda::format("is packed in {} bits; Pagoda reads 2, 3, 4 and 8", bits));
  }
  if (scheme->type != "int")
    return unserved(base, pagoda::format("is packed, of type {}; int is wanted", scheme->type));
  Planar planar{.format = nullptr, .rows = sizes[0], .cols = sizes[1]};
  PAGODA_TRY(expect(codes, {"I32"}, {planar.rows, ceil_div<std::int64_t>(planar.cols * bits, 32)}));
  const TensorEntry* scales = PAGODA_TRY(need(base + ".weight_scale", codes));
  Grid scale_grid = PAGODA_TRY(grid(*scales, planar.rows, planar.cols, scheme));
  PAGODA_TRY(expect(*scales, {"F16", "BF16", "F32"}, scales->shape));
  scale_grid.type = WordType::kShortFloat;
  planar.format = PAGODA_TRY(integers(base, bits, scale_grid.cols_each));
  const TensorEntry* g_idx = part(base + ".weight_g_idx");
  if (g_idx == nullptr && scheme->ordered) return unserved(base, "is of act-order (group), and has no weight_g_idx");
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
  return put(base + ".weight", codes, std::move(planar));
}

/// compressed-tensors, int-quantized.
Status WeightFolder::int8(const std::string& base, const TensorEntry& codes) {
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
  return put(base + ".weight", codes, std::move(planar));
}

}  // namespace pagoda::io
