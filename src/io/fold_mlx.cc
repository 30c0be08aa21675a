// MLX: affine groups, MXFP4, MXFP8, NVFP4.
#include "base/checked.h"
#include "base/numbers.h"
#include "io/weight_folder.h"

namespace pagoda::io {

Status WeightFolder::mlx(const std::string& base, const TensorEntry& codes) {
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
  const auto refuse_sizes = [&] {
    return unserved(base, pagoda::format("is {} of {} bits and groups of {}; Pagoda reads 2, 3, 4, 5, 6 and 8 bits and "
                                         "groups of 32, 64 and 128",
                                         mode, bits, scheme.group));
  };
  if (bits == 1 || bits == 7) return refuse_sizes();
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
  if (planar.format == nullptr) return refuse_sizes();
  planar.codes = row_codes(codes, planar.rows, planar.cols, bits, planar.format->bits, CodeOrder::kPlain);
  planar.scales = grid_words(std::move(scale_grid), planar.format->group);
  return put(base + ".weight", codes, std::move(planar));
}

}  // namespace pagoda::io
