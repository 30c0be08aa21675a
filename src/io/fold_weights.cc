#include "io/fold_weights.h"

#include "io/weight_folder.h"

namespace pagoda::io {

Result<TensorCatalog> WeightFolder::run() {
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

/// Whether the tensor holds the codes of a weight, and of which.
Status WeightFolder::visit(const TensorEntry& entry) {
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
Status WeightFolder::visit_scale(const TensorEntry& entry) {
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

Result<TensorCatalog> fold_weights(const ModelFile& file, const Quantization& quantization) {
  return WeightFolder(file, quantization).run();
}

}  // namespace pagoda::io
