// The cases of the stages between attention.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "gpu/parity/products.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/stages/attention_in.h"
#include "kernels/stages/ffn_in.h"
#include "kernels/stages/head.h"
#include "kernels/stages/sublayer_out.h"

namespace pagoda::parity {

using kernels::KvLayout;
using kernels::KvOrder;
using kernels::QkvNorm;
using kernels::RopeKind;
using kernels::RopePairing;
using kernels::RopeSpec;
using tensor::DType;

inline constexpr std::int64_t kMostStageRows = 40;
inline constexpr std::int64_t kStageRows[] = {1, 2, 3, 9, 16, 17, 33};
inline constexpr std::int64_t kManyStageRows[] = {100, 200};  ///< of cases that are wide enough for their kernels
inline constexpr std::int64_t kWideCase = 17000;              ///< rows of weights that are more than a round of blocks

/// The rows of a case whose product takes as many as `most`.
inline std::vector<std::int64_t> stage_rows(std::int64_t most) {
  std::vector<std::int64_t> rows(std::begin(kStageRows), std::end(kStageRows));
  if (most > kMostStageRows) rows.insert(rows.end(), std::begin(kManyStageRows), std::end(kManyStageRows));
  return rows;
}
inline constexpr double kEpsilon = 1e-5;

/// Runs the candidate that the plan would take, if it is one of CUDA's.
template <class Kernel, class Problem>
const Kernel& cuda_candidate(std::span<const Kernel> kernels, const Problem& problem, const device::DeviceCaps& caps) {
  const Kernel* kernel = kernels::choose(kernels, problem, caps);
  PAGODA_CHECK(kernel != nullptr && kernel->name == "cuda", "no candidate of CUDA takes a case");
  return *kernel;
}
struct InCase {
  std::int64_t hidden, heads, kv_heads, key_dim, value_dim, block_size;
  std::array<std::string, 3> formats;
  bool bias;
  QkvNorm norm;
  float shift;
  DType kv;
  RopeSpec rope;
};

inline RopeSpec rope(RopeKind kind, RopePairing pairing, std::int64_t head, std::int64_t rotary) {
  RopeSpec spec{.kind = kind, .pairing = pairing, .theta = 10000, .head_dim = head, .rotary_dim = rotary};
  spec.factor = 3;
  spec.original_context = 24;
  if (kind == RopeKind::kLongrope) {
    for (std::int64_t i = 0; i < rotary / 2; ++i) spec.pair_factors.push_back(1 + static_cast<double>(i) * 0.25);
    spec.attention_factor = 1.17;
  }
  return spec;
}

inline std::vector<InCase> in_cases() {
  const std::array<std::string, 3> bf16 = {"bf16", "bf16", "bf16"}, mixed = {"q4_k", "q6_k", "q8_0"},
                                   q4_0 = {"q4_0", "q4_0", "q4_0"}, q4_1 = {"q4_1", "q4_1", "q4_1"};
  using enum RopeKind;
  constexpr auto kHalf = RopePairing::kHalfSplit;
  constexpr auto kNear = RopePairing::kInterleaved;
  return {
      {136, 3, 1, 64, 64, 16, bf16, false, QkvNorm::kNone, 0, DType::kBf16, rope(kDefault, kHalf, 64, 64)},
      {264, 6, 2, 64, 64, 8, bf16, true, QkvNorm::kNone, 0, DType::kBf16, rope(kLinear, kNear, 64, 64)},
      {136, 5, 1, 96, 80, 64, bf16, true, QkvNorm::kQueryKey, 0, DType::kBf16, rope(kYarn, kHalf, 96, 96)},
      {136, 4, 2, 128, 128, 256, bf16, false, QkvNorm::kQueryKey, 1, DType::kBf16, rope(kLlama3, kHalf, 128, 128)},
      {136, 2, 2, 256, 256, 16, bf16, false, QkvNorm::kQueryKey, 1, DType::kBf16, rope(kProportional, kHalf, 256, 64)},
      {136, 4, 2, 128, 128, 16, bf16, false, QkvNorm::kQueryKey, 0, DType::kFp8E4m3, rope(kLongrope, kHalf, 128, 48)},
      {136, 3, 3, 64, 64, 8, bf16, false, QkvNorm::kNone, 0, DType::kFp8E4m3, rope(kDefault, kNear, 64, 32)},
      {136, 7, 1, 64, 64, 16, bf16, false, QkvNorm::kAll, 0, DType::kBf16, rope(kNone, kHalf, 64, 64)},
      {512, 3, 1, 64, 64, 16, mixed, true, QkvNorm::kNone, 0, DType::kBf16, rope(kDefault, kNear, 64, 64)},
      {288, 5, 1, 64, 64, 16, q4_1, true, QkvNorm::kNone, 0, DType::kBf16, rope(kDefault, kHalf, 64, 64)},
      {512, 3, 1, 128, 128, 16, q4_0, false, QkvNorm::kQueryKey, 1, DType::kFp8E4m3, rope(kYarn, kHalf, 128, 128)},
  };
}

inline kernels::AttentionInProblem in_problem(const InCase& c, const kernels::LinearProblem& product, bool exact) {
  const DType activation = exact ? DType::kF64 : DType::kBf16;
  kernels::AttentionInProblem problem;
  problem.norm = {.activation = activation, .hidden = c.hidden, .epsilon = kEpsilon, .weight_shift = c.shift};
  problem.product = product;
  problem.post = {.activation = activation,
                  .num_heads = c.heads,
                  .num_kv_heads = c.kv_heads,
                  .key_dim = c.key_dim,
                  .value_dim = c.value_dim,
                  .norm = c.norm,
                  .epsilon = kEpsilon,
                  .weight_shift = c.shift,
                  .rope = c.rope};
  problem.layout = {.dtype = exact ? DType::kF64 : c.kv,
                    .block_size = c.block_size,
                    .kv_heads = c.kv_heads,
                    .key_dim = c.key_dim,
                    .value_dim = c.value_dim,
                    .order = exact ? KvOrder::kLanes16 : KvOrder::kHeads};
  if (!exact && c.kv == DType::kFp8E4m3) {
    problem.layout.key_scale = 0.125f;
    problem.layout.value_scale = 0.0625f;
  }
  return problem;
}

inline std::vector<WeightCase> in_weights(const InCase& c) {
  return {{c.formats[0], c.heads * c.key_dim, c.bias},
          {c.formats[1], c.kv_heads * c.key_dim, c.bias},
          {c.formats[2], c.kv_heads * c.value_dim, false}};
}

struct OutCase {
  std::int64_t k, hidden;
  std::string format;
  bool norm;
  float scale, shift;
  bool attention;
  bool bias;
  std::int64_t most_rows = kMostStageRows;
};

inline std::vector<OutCase> out_cases() {
  return {{320, 136, "bf16", false, 1, 0, true, false},
          {1000, 268, "bf16", false, 0.7f, 0, false, true},
          {320, 136, "bf16", true, 0.7f, 1, true, false},
          {4096, 136, "bf16", false, 1, 0, false, false},
          {512, 132, "q4_k", false, 0.7f, 0, true, true},
          {288, 132, "q4_1", true, 1, 0, false, false},
          {72, kWideCase, "bf16", false, 0.7f, 0, false, true, 200}};
}

inline kernels::SublayerOutProblem out_problem(const OutCase& c, const kernels::LinearProblem& product, bool exact) {
  return {.product = product,
          .residual = {.activation = exact ? DType::kF64 : DType::kBf16,
                       .hidden = c.hidden,
                       .scale = c.scale,
                       .norm = c.norm,
                       .epsilon = kEpsilon,
                       .weight_shift = c.shift}};
}

struct FfnCase {
  std::int64_t hidden, width;
  std::string gate, up;
  kernels::ActivationKind kind;
  float shift;
  bool bias;
  std::int64_t most_rows = kMostStageRows;
};

inline std::vector<FfnCase> ffn_cases() {
  using enum kernels::ActivationKind;
  return {{136, 204, "bf16", "bf16", kSilu, 0, false},
          {264, 1004, "bf16", "bf16", kGeluTanh, 1, false},
          {512, 100, "q4_k", "q6_k", kSilu, 0, false},
          {288, 52, "q4_1", "q4_1", kGeluTanh, 1, false},
          {288, 52, "mxfp4", "mxfp4", kSilu, 0, true},
          {512, 52, "q4_k", "q4_k", kSilu, 0, false},
          {72, kWideCase / 2, "bf16", "bf16", kGeluTanh, 0, true, 200},
          {96, kWideCase / 2, "q8_0", "q8_0", kSilu, 0, false, 200}};
}

inline kernels::FfnInProblem ffn_problem(const FfnCase& c, const kernels::LinearProblem& product, bool exact) {
  const DType activation = exact ? DType::kF64 : DType::kBf16;
  return {.has_norm = true,
          .norm = {.activation = activation, .hidden = c.hidden, .epsilon = kEpsilon, .weight_shift = c.shift},
          .product = product,
          .activation = {.activation = activation, .width = c.width, .kind = c.kind}};
}

inline std::vector<WeightCase> ffn_weights(const FfnCase& c) {
  return {{c.gate, c.width, c.bias}, {c.up, c.width, c.bias}};
}

struct HeadCase {
  std::int64_t hidden, vocab;
  std::string format;
  double softcap;
  float scale, shift;
};

inline std::vector<HeadCase> head_cases() {
  return {{136, 307, "bf16", 0, 1, 0},    {264, 1013, "bf16", 1.5, 0.7f, 1},
          {288, 99, "q4_1", 0, 1.3f, 0},  {288, 99, "q4_0", 0, 1, 0},
          {288, 99, "q8_0", 0, 1, 0},     {512, 99, "nvfp4", 0, 1, 0},
          {512, 99, "q3_k", 0, 1, 0},     {512, 99, "iq4_xs", 0, 1, 0},
          {512, 77, "q6_k", 2, 0.002f, 0}};  // logits of about 1, so that the cap bends them
}

inline kernels::HeadProblem head_problem(const HeadCase& c, const kernels::LinearProblem& product, bool exact) {
  return {.norm = {.activation = exact ? DType::kF64 : DType::kBf16,
                   .hidden = c.hidden,
                   .epsilon = kEpsilon,
                   .weight_shift = c.shift},
          .product = product,
          .softcap = c.softcap,
          .scale = c.scale};
}

template <class Kernel, class Problem>
void add_units(std::vector<CompileUnit>& to, std::span<const Kernel> kernels, const Problem& problem,
               const device::DeviceCaps& caps) {
  append(to, cuda_candidate(kernels, problem, caps).units(problem, caps));
}

inline std::vector<CompileUnit> stage_units(const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const InCase& c : in_cases()) {
    const auto product = planned(in_weights(c), c.hidden, kMostStageRows, caps);
    add_units(units, kernels::attention_in_kernels(), in_problem(c, product, false), caps);
  }
  for (const OutCase& c : out_cases()) {
    const auto product = planned({{c.format, c.hidden, c.bias}}, c.k, c.most_rows, caps);
    const auto kernels = c.attention ? kernels::attention_out_kernels() : kernels::ffn_out_kernels();
    add_units(units, kernels, out_problem(c, product, false), caps);
  }
  for (const FfnCase& c : ffn_cases()) {
    const auto product = planned(ffn_weights(c), c.hidden, c.most_rows, caps);
    add_units(units, kernels::ffn_in_kernels(), ffn_problem(c, product, false), caps);
  }
  for (const HeadCase& c : head_cases()) {
    const auto product = planned({{c.format, c.vocab, false}}, c.hidden, kMostStageRows, caps);
    add_units(units, kernels::head_kernels(), head_problem(c, product, false), caps);
    auto deterministic = product;
    deterministic.deterministic = true;
    add_units(units, kernels::head_kernels(), head_problem(c, deterministic, false), caps);
  }
  std::ranges::copy(kernels::gather_rows_units(caps), std::back_inserter(units));
  return units;
}

}  // namespace pagoda::parity
