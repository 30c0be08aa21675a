#include "api/quantize_jobs.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "quant/encode.h"

namespace pagoda::api {
namespace {

using model::Role;

struct TargetName {
  std::string_view name;
  std::string_view format;
  std::uint32_t file_type;
  bool mixed = false;
};

/// The numbers are those of the file types that GGUF's writers declare; a mix has one of its own. Types of the list of
/// formats that are not here are targets of their own name (unlisted_gguf_formats).
constexpr TargetName kGgufTargets[] = {
    {"f32", "f32", 0},      {"f16", "f16", 1},    {"bf16", "bf16", 32},     {"q4_0", "q4_0", 2},
    {"q4_1", "q4_1", 3},    {"q5_0", "q5_0", 8},  {"q5_1", "q5_1", 9},      {"q8_0", "q8_0", 7},
    {"q2_k", "q2_k", 10},   {"q3_k", "q3_k", 11}, {"q4_k", "q4_k", 14},     {"q4_k_m", "q4_k", 15, true},
    {"q5_k", "q5_k", 16},   {"q6_k", "q6_k", 18}, {"iq4_nl", "iq4_nl", 25}, {"iq4_xs", "iq4_xs", 30},
    {"mxfp4", "mxfp4", 38},
};

struct FolderTarget {
  std::string_view name;
  std::string_view format;
  CheckpointKind kind;
};

constexpr FolderTarget kFolderTargets[] = {
    {"f32", "f32", CheckpointKind::kFloats},
    {"f16", "f16", CheckpointKind::kFloats},
    {"bf16", "bf16", CheckpointKind::kFloats},
    {"affine2_g32", "affine2_g32", CheckpointKind::kMlx},
    {"affine2_g64", "affine2_g64", CheckpointKind::kMlx},
    {"affine2_g128", "affine2_g128", CheckpointKind::kMlx},
    {"affine3_g32", "affine3_g32", CheckpointKind::kMlx},
    {"affine3_g64", "affine3_g64", CheckpointKind::kMlx},
    {"affine3_g128", "affine3_g128", CheckpointKind::kMlx},
    {"affine4_g32", "affine4_g32", CheckpointKind::kMlx},
    {"affine4_g64", "affine4_g64", CheckpointKind::kMlx},
    {"affine4_g128", "affine4_g128", CheckpointKind::kMlx},
    {"affine5_g32", "affine5_g32", CheckpointKind::kMlx},
    {"affine5_g64", "affine5_g64", CheckpointKind::kMlx},
    {"affine5_g128", "affine5_g128", CheckpointKind::kMlx},
    {"affine6_g32", "affine6_g32", CheckpointKind::kMlx},
    {"affine6_g64", "affine6_g64", CheckpointKind::kMlx},
    {"affine6_g128", "affine6_g128", CheckpointKind::kMlx},
    {"affine8_g32", "affine8_g32", CheckpointKind::kMlx},
    {"affine8_g64", "affine8_g64", CheckpointKind::kMlx},
    {"affine8_g128", "affine8_g128", CheckpointKind::kMlx},
    {"mxfp4", "mxfp4", CheckpointKind::kMlx},
    {"mxfp8", "mxfp8", CheckpointKind::kMlx},
    {"fp8_e4m3", "fp8_e4m3", CheckpointKind::kFp8Channel},
    {"fp8_block128", "fp8_e4m3", CheckpointKind::kFp8Block},
    {"packed4_g32", "packed4_g32", CheckpointKind::kPacked},
    {"packed4_g64", "packed4_g64", CheckpointKind::kPacked},
    {"packed4_g128", "packed4_g128", CheckpointKind::kPacked},
    {"packed8", "packed8_g128", CheckpointKind::kPacked},
    {"nvfp4", "nvfp4", CheckpointKind::kNvfp4},
};

const quant::Format* named(std::string_view name) {
  const quant::Format* format = quant::find_format(name);
  PAGODA_CHECK(format != nullptr, "{}", name);
  return format;
}

/// Types of GGUF that can be written, and that no file type is declared for.
std::vector<const quant::Format*> unlisted_gguf_formats() {
  std::vector<const quant::Format*> unlisted;
  for (const quant::Format* format : quant::all_formats()) {
    if (format->gguf_type < 0 || quant::find_encoder(*format) == nullptr) continue;
    const bool listed = std::ranges::find(kGgufTargets, format->name, &TargetName::name) != std::end(kGgufTargets);
    if (!listed) unlisted.push_back(format);
  }
  return unlisted;
}

/// The format of about the same size, or the next larger, whose blocks divide rows that 256 does not.
const quant::Format* fallback(const quant::Format& format, std::int64_t cols) {
  constexpr std::array<std::array<std::string_view, 2>, 6> kSmallerBlocks = {
      {{"q2_k", "q4_0"}, {"q3_k", "q4_0"}, {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"}, {"iq4_xs", "iq4_nl"}}};
  for (const auto& [from, to] : kSmallerBlocks) {
    if (format.name == from && named(to)->divides(cols)) return named(to);
  }
  return named("f16");
}

/// llama.cpp's rule for Q4_K_M: the first and last eighth of the layers, and every third between.
bool gets_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/// The larger format of a mix is for the head (also one that is the embedding) and some layers' values and down
/// products.
bool is_larger(const model::ModelSpec& spec, const model::BoundTensor& tensor) {
  if (tensor.role == Role::kHead || (tensor.role == Role::kEmbedding && spec.tied_head)) return true;
  const bool sensitive = tensor.role == Role::kValue || tensor.role == Role::kDown;
  return sensitive && gets_more_bits(tensor.layer, std::ssize(spec.layers));
}

bool is_norm(Role role) {
  switch (role) {
    case Role::kFinalNorm:
    case Role::kAttentionNorm:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
    case Role::kAttentionPostNorm:
    case Role::kFeedForwardNorm:
    case Role::kFeedForwardPostNorm:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<QuantizeTarget> find_target(const std::string& name, const std::string& out) {
  const auto* const gguf = std::ranges::find(kGgufTargets, name, &TargetName::name);
  const auto* const folder = std::ranges::find(kFolderTargets, name, &FolderTarget::name);
  const bool in_gguf = gguf != std::end(kGgufTargets);
  const bool in_folder = folder != std::end(kFolderTargets);
  if (in_gguf && (!in_folder || out.ends_with(".gguf"))) {
    return QuantizeTarget{.name = gguf->name,
                          .format = named(gguf->format),
                          .kind = CheckpointKind::kGguf,
                          .mixed = gguf->mixed,
                          .file_type = gguf->file_type};
  }
  if (in_folder) return QuantizeTarget{.name = folder->name, .format = named(folder->format), .kind = folder->kind};
  for (const quant::Format* format : unlisted_gguf_formats()) {
    if (format->name == name) return QuantizeTarget{.name = format->name, .format = format};
  }
  std::string known;
  for (const std::string& each : target_names()) known += pagoda::format("{}{}", known.empty() ? "" : ", ", each);
  return fail_param(ErrorCode::kInvalidArgument, "format", "the format must be one of {}, not \"{}\"", known, name);
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const TargetName& target : kGgufTargets) names.emplace_back(target.name);
  for (const quant::Format* format : unlisted_gguf_formats()) names.emplace_back(format->name);
  for (const FolderTarget& target : kFolderTargets) {
    if (std::ranges::find(names, target.name) == names.end()) names.emplace_back(target.name);
  }
  return names;
}

std::int64_t source_row(const TensorJob& job, std::int64_t row) {
  if (job.order == RowOrder::kAsRead) return row;
  const std::int64_t head = row / job.head_dim * job.head_dim;
  const std::int64_t at = row - head;
  const std::int64_t half = job.head_dim / 2;
  // Neighbours 2i and 2i + 1 are i of the first half and i of the second.
  if (job.order == RowOrder::kHalvesToNeighbours) return head + at % 2 * half + at / 2;
  return head + at % half * 2 + at / half;
}

Status reconcile(const model::ModelSpec& from, const model::ModelSpec& to, std::vector<TensorJob>& jobs) {
  using kernels::RopePairing;
  for (TensorJob& job : jobs) {
    const Role role = job.source.role;
    if (is_norm(role)) job.shift = from.norm_weight_shift - to.norm_weight_shift;
    const bool turned =
        role == Role::kQuery || role == Role::kKey || role == Role::kQueryBias || role == Role::kKeyBias;
    if (!turned) continue;
    const auto layer = static_cast<std::size_t>(job.source.layer);
    const model::AttentionSpec& attention = from.layers[layer].attention;
    const RopePairing pairing = to.layers[layer].attention.rope.pairing;
    if (attention.rope.pairing == pairing) continue;
    if (attention.rope.rotary_dim != attention.key_dim || attention.qk_norm != kernels::QkvNorm::kNone) {
      return fail(
          ErrorCode::kConfigUnknown,
          "{}: the rows of heads that are turned in part, or have norms, cannot be brought into the order of the "
          "other kind of file",
          job.source.entry->name);
    }
    job.order = pairing == RopePairing::kInterleaved ? RowOrder::kHalvesToNeighbours : RowOrder::kNeighboursToHalves;
    job.head_dim = attention.key_dim;
    if (!job.source.matrix) std::swap(job.source.rows, job.source.cols);  // a bias' elements are moved one by one
  }
  return Ok{};
}

const quant::Format* format_for(const QuantizeTarget& target, const model::ModelSpec& spec,
                                const model::BoundTensor& tensor) {
  if (!tensor.matrix) return named("f32");
  const quant::Format* format = target.mixed && is_larger(spec, tensor) ? named("q6_k") : target.format;
  return format->divides(tensor.cols) ? format : fallback(*format, tensor.cols);
}

}  // namespace pagoda::api
