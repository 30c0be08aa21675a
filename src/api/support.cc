// What runs where: every operation's candidates, and for products those of each weight format.
#include "api/support.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "api/library_state.h"
#include "kernels/attention/attention.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/kv_store/kv_store.h"
#include "kernels/linear/linear.h"
#include "kernels/qkv_postprocess/qkv_postprocess.h"
#include "kernels/residual/residual.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/stages/attention_in.h"
#include "kernels/stages/ffn_in.h"
#include "kernels/stages/head.h"
#include "kernels/stages/sublayer_out.h"
#include "pagoda/inspect.h"

namespace pagoda {
namespace {

void append(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

/// Device code that a product may launch, by the names of its files.
std::string device_code(const std::vector<device::CompileUnit>& units) {
  std::string list;
  for (const device::CompileUnit& unit : units) {
    const std::string name = std::filesystem::path(unit.source).stem();
    if (list.find(name) == std::string::npos) append(list, name);
  }
  return list;
}

/// What serves a product of that many rows over a weight of this format; empty if nothing does.
std::string linear_kernel(const quant::Format& format, const device::DeviceCaps& caps, kernels::Precision precision,
                          std::int64_t rows) {
  const bool gpu = caps.kind == device::DeviceKind::kCuda;
  kernels::LinearProblem problem;
  problem.weights[0] = {.format = &format, .layout = nullptr, .n = 768};
  problem.num_weights = 1;
  problem.k = 768;
  problem.precision = precision;
  problem.max_m = rows;
  problem.activation = gpu                                           ? tensor::DType::kBf16
                       : caps.kind == device::DeviceKind::kReference ? tensor::DType::kF64
                                                                     : tensor::DType::kF32;
  const kernels::LinearKernel* kernel = kernels::first_linear_kernel(problem, caps);
  if (kernel == nullptr) return {};
  return gpu ? device_code(kernel->units(problem, caps)) : std::string(kernel->name);
}

template <class Kernels>
void add_operation(std::vector<SupportRow>& rows, const char* operation, const Kernels& candidates) {
  std::string list;
  for (const auto& candidate : candidates) append(list, candidate.name);
  rows.push_back({.operation = operation, .format = {}, .device = "all", .candidates = list});
}

}  // namespace

std::vector<SupportRow> api::linear_support(const device::DeviceCaps& caps, kernels::Precision precision) {
  constexpr std::pair<const char*, std::int64_t> kSizes[] = {{"gemv", 1}, {"small", 16}, {"large", 512}};
  std::string device(device::to_string(caps.kind));
  if (caps.kind == device::DeviceKind::kCpu) {
    device += " " + std::string(device::to_string(caps.isa)) + " " + std::string(kernels::to_string(precision));
  }
  if (caps.kind == device::DeviceKind::kCuda) device += " " + caps.gpu.architecture();
  std::vector<SupportRow> rows;
  for (const quant::Format* format : quant::all_formats()) {
    const std::size_t first = rows.size();
    for (const auto& [size, count] : kSizes) {
      const std::string kernel = linear_kernel(*format, caps, precision, count);
      if (rows.size() > first && rows.back().candidates == kernel) {
        rows.back().operation += pagoda::format(", {}", size);
      } else {
        rows.push_back({.operation = pagoda::format("linear {}", size),
                        .format = std::string(format->name),
                        .device = device,
                        .candidates = kernel});
      }
    }
  }
  return rows;
}

std::vector<SupportRow> support(const Library& library) {
  std::vector<SupportRow> rows;
  const auto add = [&](const device::DeviceCaps& caps, kernels::Precision precision) {
    std::ranges::move(api::linear_support(caps, precision), std::back_inserter(rows));
  };
  add(device::reference_caps(), kernels::Precision::kExact);
  add(library.state()->cpu, kernels::Precision::kStandard);
  add(library.state()->cpu, kernels::Precision::kHigh);
  add(device::gpu_caps("h200").value(), kernels::Precision::kStandard);
  add_operation(rows, "attention", kernels::attention_kernels());
  add_operation(rows, "kv_store", kernels::kv_store_kernels());
  add_operation(rows, "qkv_postprocess", kernels::qkv_postprocess_kernels());
  add_operation(rows, "rms_norm", kernels::rms_norm_kernels());
  add_operation(rows, "residual", kernels::residual_kernels());
  add_operation(rows, "gated_activation", kernels::gated_activation_kernels());
  add_operation(rows, "stage attention_in", kernels::attention_in_kernels());
  add_operation(rows, "stage attention_out", kernels::attention_out_kernels());
  add_operation(rows, "stage ffn_in", kernels::ffn_in_kernels());
  add_operation(rows, "stage ffn_out", kernels::ffn_out_kernels());
  add_operation(rows, "stage head", kernels::head_kernels());
  return rows;
}

}  // namespace pagoda
