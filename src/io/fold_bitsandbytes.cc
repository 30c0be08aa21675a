// bitsandbytes' nf4 and fp4.
#include <optional>

#include "base/checked.h"
#include "io/json_config.h"
#include "io/weight_folder.h"
#include "quant/formats/bnb4.h"

namespace pagoda::io {

Status WeightFolder::bitsandbytes(const std::string& base, const TensorEntry& codes) {
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
  const std::optional<std::int64_t> elements = checked_mul(planar.rows, planar.cols);
  if (codes.dtype != "U8" || !elements || static_cast<std::int64_t>(codes.bytes) * 2 != *elements) {
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
  const std::int64_t blocks = ceil_div(*elements, block);
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
  return put(weight, codes, std::move(planar));
}

}  // namespace pagoda::io
