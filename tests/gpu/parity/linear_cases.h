// The cases of linear and embed: all formats in all layouts that a GPU reads, odd sizes.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/parity/products.h"
#include "kernels/embed/embed.h"
#include "kernels/linear/cuda_linear.h"

namespace pagoda::parity {

inline constexpr std::int64_t kMostLinearRows = 257;
inline constexpr std::int64_t kLinearRows[] = {1, 2, 3, 8, 9, 16, 17, 33, 100, 200, kMostLinearRows};
struct LinearCase {
  std::vector<WeightCase> weights;
  std::int64_t k = 0;
  bool deterministic = false;

  friend void PrintTo(const LinearCase& c, std::ostream* out) { *out << c.name(); }

  std::string name() const {
    std::string text;
    for (const WeightCase& weight : weights) {
      text += weight.format + (weight.fp8_input ? " of fp8" : "") + (weight.row_scales ? " by rows" : "") + " n" +
              std::to_string(weight.n) + " ";
    }
    return text + "k" + std::to_string(k) + (deterministic ? " deterministic" : "");
  }
};

/// Formats that a run is about; empty: all. Set before the tests are.
inline std::vector<std::string> chosen_formats;
inline bool is_chosen(std::string_view format) {
  return chosen_formats.empty() || std::ranges::find(chosen_formats, format) != chosen_formats.end();
}

inline std::vector<LinearCase> linear_cases() {
  std::vector<LinearCase> all;
  for (const quant::Format* format : quant::all_formats()) {
    const std::string name(format->name);
    if (!is_chosen(name)) continue;
    // Columns that are no whole turn of 32, where the format allows it.
    const std::int64_t k = format->block_elements == 1 ? 328 : format->block_elements == 32 ? 288 : 768;
    all.push_back({.weights = {{name, 77, false}}, .k = k});
  }
  const std::vector<WeightCase> three = {{"bf16", 160, true}, {"bf16", 33, true}, {"bf16", 48, false}};
  const std::vector<WeightCase> mixed = {{"q4_k", 96, true}, {"q6_k", 17, true}, {"q8_0", 31, false}};
  const std::vector<WeightCase> beside_bf16 = {
      {"affine4_g64", 48, true}, {"bf16", 33, false}, {"affine4_g64", 17, true}};
  for (const bool deterministic : {false, true}) {
    all.push_back({.weights = three, .k = 1000, .deterministic = deterministic});
    all.push_back({.weights = mixed, .k = 512, .deterministic = deterministic});
    all.push_back({.weights = beside_bf16, .k = 520, .deterministic = deterministic});
  }
  all.push_back({.weights = {{"bf16", 1201, false}}, .k = 264});
  all.push_back({.weights = {{"bf16", 17000, true}}, .k = 72});  // more than a round of blocks
  if (is_chosen("fp8_e4m3")) {
    all.push_back({.weights = {{"fp8_e4m3", 96, true, true}, {"fp8_e4m3", 33, false, true}}, .k = 1208});
    all.push_back({.weights = {{"fp8_e4m3", 96, true, true, true}, {"fp8_e4m3", 33, false, true, true}}, .k = 1208});
    all.push_back(
        {.weights = {{"fp8_e4m3", 77, false, true}}, .k = 576, .deterministic = true});  // then nothing is rounded
  }
  return all;
}

inline const std::vector<const kernels::LinearKernel*>& linear_candidates() {
  static const std::vector<const kernels::LinearKernel*> all = {
      &kernels::kMma16CudaLinear, &kernels::kMmaCodesCudaLinear, &kernels::kRowsCudaLinear};
  return all;
}

/// The case's problem in a candidate's layouts; false if it reads not all its formats.
inline bool fit(const kernels::LinearKernel& kernel, const LinearCase& c, const device::DeviceCaps& caps,
                kernels::LinearProblem& problem) {
  problem = gpu_product(c.weights, c.k, kMostLinearRows);
  problem.deterministic = c.deterministic;
  for (int i = 0; i < problem.num_weights; ++i) {
    auto& spec = problem.weights[static_cast<std::size_t>(i)];
    spec.layout = kernel.layout(*spec.format);
    if (spec.layout == nullptr) return false;
  }
  return kernel.supports(problem, caps);
}

inline std::vector<CompileUnit> linear_units_of(const kernels::LinearKernel& kernel,
                                                const kernels::LinearProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units = kernel.units(problem, caps);
  for (const auto& spec : problem.specs()) {
    for (CompileUnit& unit : kernels::pack_units(*spec.format, *spec.layout, caps)) units.push_back(std::move(unit));
  }
  return units;
}

struct EmbedCase {
  const quant::Format* format;
  const kernels::Layout* layout;
};

inline std::vector<EmbedCase> embed_cases() {
  std::vector<EmbedCase> all;
  for (const quant::Format* format : quant::all_formats()) {
    if (!is_chosen(format->name)) continue;
    all.push_back({format, &kernels::kRowsLayout});
    for (const kernels::Layout* layout : {&kernels::kMma16Layout, &kernels::kMmaCodesLayout}) {
      if (layout->supports(*format)) all.push_back({format, layout});
    }
  }
  return all;
}

inline std::vector<CompileUnit> linear_units(const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const LinearCase& c : linear_cases()) {
    for (const kernels::LinearKernel* kernel : linear_candidates()) {
      kernels::LinearProblem problem;
      if (fit(*kernel, c, caps, problem)) append(units, linear_units_of(*kernel, problem, caps));
    }
  }
  for (const auto& [format, layout] : embed_cases()) {
    append(units, kernels::embed_units(*format, *layout, caps));
    append(units, kernels::pack_units(*format, *layout, caps));
  }
  return units;
}

}  // namespace pagoda::parity
