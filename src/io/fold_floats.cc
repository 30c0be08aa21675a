// Small floats: fp8 of every tool, NVFP4, MXFP4 and MXFP8.
#include <cmath>

#include "base/checked.h"
#include "base/numbers.h"
#include "io/weight_folder.h"

namespace pagoda::io {

Status WeightFolder::fp8(const std::string& base, const TensorEntry& codes) {
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
  bool row_scales = scales == nullptr;
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
    row_scales = scale_grid.cols_each >= planar.cols;
    planar.scales = grid_words(std::move(scale_grid), planar.format->group);
  }
  planar.codes = row_codes(codes, planar.rows, planar.cols, 8, 8, CodeOrder::kPlain);
  // ModelOpt's permission is the scale of activations beside the weight.
  const QuantScheme* scheme = PAGODA_TRY(quantization_.scheme_of(base));
  // Scales of blocks go with activations that have scales of as many columns: finer than those of rows, which products
  // have.
  const bool fp8_input =
      scheme != nullptr ? scheme->fp8_input && scheme->block_cols == 0 : part(base + ".input_scale") != nullptr;
  drop(base);
  PAGODA_TRY(put(base + ".weight", codes, std::move(planar)));
  TensorEntry& folded = folded_.at(codes.name);
  folded.fp8_input = fp8_input;
  folded.row_scales = row_scales;
  return Ok{};
}

/// Bytes of two e2m1: NVFP4, in ModelOpt's direction (`weight_scale_2`, a multiplier) and in compressed-tensors'
/// (`weight_global_scale`, a divisor), or MXFP4 of compressed-tensors, which has neither.
Status WeightFolder::fp4(const std::string& base, const TensorEntry& codes, std::string_view tensor_scale) {
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
    const float factor = tensor_scale == ".weight_global_scale" ? 1.0f / scale : scale;
    if (!std::isfinite(factor)) {
      return fail(ErrorCode::kFormatUnsupported, "{}: tensor {} is {}, and its inverse is no float", file_.path(),
                  quoted(global->name), scale);
    }
    planar.super = bits_of_float(factor);
  }
  planar.codes = row_codes(codes, planar.rows, planar.cols, 4, 4, CodeOrder::kPlain);
  planar.scales = grid_words({.entry = *scales,
                              .type = mx ? WordType::kE8m0 : WordType::kE4m3,
                              .rows = planar.rows,
                              .cols = planar.cols,
                              .cols_each = group},
                             planar.format->group);
  drop(base);
  return put(base + ".weight", codes, std::move(planar));
}

/// gpt-oss: (…, rows, groups, 16) bytes of codes, (…, rows, groups) of scales.
Status WeightFolder::mxfp4_blocks(const std::string& base, const TensorEntry& codes) {
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
  return put(linear ? base + ".weight" : base, codes, std::move(planar), std::move(outer));
}

}  // namespace pagoda::io
