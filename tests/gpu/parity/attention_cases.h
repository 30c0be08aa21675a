// The cases of attention, and the steps that each runs.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/parity/products.h"
#include "kernels/attention/cuda_attention.h"

namespace pagoda::parity {

struct AttentionCase {
  std::int64_t heads, kv_heads, key_dim, value_dim, block_size;
  std::int64_t window = 0;
  double softcap = 0;
  bool sinks = false;
  tensor::DType kv = tensor::DType::kBf16;
  double gain = 1;  // of queries: large ones make a cap bite
  bool deterministic = false;
  bool any_dims = false;

  friend void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name(); }

  std::string name() const {
    return pagoda::format("{} heads / {}, dims {} {}, blocks of {}, window {}, cap {}, sinks {}, {}{}", heads, kv_heads,
                          key_dim, value_dim, block_size, window, softcap, sinks, tensor::name_of(kv),
                          any_dims        ? ", any dims"
                          : deterministic ? ", deterministic"
                                          : "");
  }
  const kernels::AttentionKernel& kernel() const {
    return any_dims ? kernels::kCudaAttentionAnyDims : kernels::kCudaAttention;
  }
};

inline std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> all = {
      {9, 3, 64, 64, 16},
      {1, 1, 80, 80, 8},
      {6, 3, 96, 96, 64, 45},
      {12, 3, 128, 128, 16},
      {12, 3, 128, 128, 256, 0, 0, true},
      {12, 3, 128, 128, 8, 33, 30, true, tensor::DType::kBf16, 6},
      {5, 1, 64, 64, 8, 17, 0, true},
      {7, 1, 128, 128, 16, 0, 20, false, tensor::DType::kBf16, 6},
      {8, 1, 192, 128, 16},
      {4, 2, 256, 256, 16, 70},
      {8, 2, 256, 256, 64, 0, 5, false, tensor::DType::kBf16, 4},
      {6, 2, 128, 64, 16},
      {9, 3, 64, 64, 16, 0, 0, false, tensor::DType::kFp8E4m3},
      {12, 3, 128, 128, 16, 50, 0, true, tensor::DType::kFp8E4m3},
      {4, 1, 256, 256, 8, 0, 12, false, tensor::DType::kFp8E4m3, 4},
      {9, 3, 64, 64, 16, 0, 0, false, tensor::DType::kBf16, 1, true},
      {12, 3, 128, 128, 8, 50, 20, true, tensor::DType::kFp8E4m3, 4, true},
      {4, 2, 112, 48, 16, 0, 0, false, tensor::DType::kBf16},  // dims that only the kernel for all GPUs takes
  };
  // All of them, and sizes that no other kernel takes, by the kernel without sizes.
  for (std::size_t i = 0, count = all.size(); i < count; ++i) {
    if (all[i].deterministic) continue;
    all.push_back(all[i]);
    all.back().any_dims = true;
  }
  const AttentionCase odd = {6, 2, 34, 50, 16, 0, 0, false, tensor::DType::kBf16, 1, false, true};
  const AttentionCase wide = {4, 1, 512, 512, 8, 41, 0, true, tensor::DType::kFp8E4m3, 1, false, true};
  all.insert(all.end(), {odd, wide});
  return all;
}

/// A row of a step: tokens [start, start + count) of a sequence.
struct Row {
  std::int64_t start, count;
};
struct StepCase {
  std::string name;
  std::vector<Row> rows;
  std::int64_t padded_rows = 0;  ///< rows of no token at the end, as captured steps have them
};

/// Lengths on both sides of tiles, blocks and partitions.
inline const std::vector<StepCase>& step_cases() {
  static const std::vector<StepCase> all = {
      {"one decode", {{300, 1}}},
      {"the first token", {{0, 1}}},
      {"ragged decodes", {{0, 1}, {15, 1}, {16, 1}, {17, 1}, {129, 1}, {600, 1}, {63, 1}}},
      {"padded decodes", {{5, 1}, {511, 1}, {80, 1}}, 5},
      {"many decodes",
       {{7, 1}, {31, 1}, {32, 1}, {33, 1}, {250, 1}, {2, 1}, {64, 1}, {65, 1}, {100, 1}, {700, 1}, {1, 1}}},
      {"a prompt", {{0, 150}}},
      {"a later chunk", {{61, 129}}},
      {"prompts", {{0, 2}, {3, 70}, {0, 16}, {255, 33}, {64, 64}}},
      {"decodes and chunks", {{40, 1}, {0, 37}, {515, 1}, {128, 65}, {9, 1}, {16, 3}}},
  };
  return all;
}

inline constexpr std::int64_t kMaxRows = 16;
inline constexpr std::int64_t kContext = 1024;

inline kernels::AttentionProblem problem_of(const AttentionCase& c, bool exact) {
  kernels::AttentionProblem problem;
  problem.activation = exact ? tensor::DType::kF64 : tensor::DType::kBf16;
  problem.precision = exact ? kernels::Precision::kExact : kernels::Precision::kStandard;
  problem.layout = {.dtype = exact ? tensor::DType::kF64 : c.kv,
                    .block_size = c.block_size,
                    .kv_heads = c.kv_heads,
                    .key_dim = c.key_dim,
                    .value_dim = c.value_dim,
                    .order = exact ? kernels::KvOrder::kLanes16 : kernels::KvOrder::kHeads};
  if (!exact && c.kv == tensor::DType::kFp8E4m3) {
    problem.layout.key_scale = 0.5f;
    problem.layout.value_scale = 0.25f;
  }
  problem.num_heads = c.heads;
  problem.scale = 1 / std::sqrt(static_cast<double>(c.key_dim));
  problem.window = c.window;
  problem.softcap = c.softcap;
  problem.sinks = c.sinks;
  problem.deterministic = c.deterministic;
  problem.any_size = c.any_dims;
  problem.max_rows = kMaxRows;
  problem.max_context = kContext;
  return problem;
}

inline std::vector<CompileUnit> attention_units(const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const AttentionCase& c : attention_cases()) {
    const kernels::AttentionProblem problem = problem_of(c, false);
    PAGODA_CHECK(c.kernel().supports(problem, caps), "{}", c.name());
    append(units, c.kernel().units(problem, caps));
  }
  return units;
}

}  // namespace pagoda::parity
