// What runs where: every operation's candidates, and for products those of each weight format.
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

/// The candidates for a product over a weight of this format, on this device.
std::string linear_candidates(const quant::Format& format, const device::DeviceCaps& caps,
                              kernels::Precision precision) {
  std::string list;
  for (const kernels::LinearKernel* kernel : kernels::linear_kernels()) {
    const kernels::Layout* layout = kernel->layout(format);
    if (layout == nullptr) continue;
    kernels::LinearProblem problem;
    problem.weights[0] = {.format = &format, .layout = layout, .n = 768};
    problem.num_weights = 1;
    problem.k = 768;
    problem.precision = precision;
    problem.max_m = 512;
    const bool exact = caps.kind == device::DeviceKind::kReference;
    problem.activation = exact ? tensor::DType::kF64 : tensor::DType::kF32;
    if (kernel->supports(problem, caps)) append(list, kernel->name);
  }
  return list;
}

template <class Kernels>
void add_operation(std::vector<SupportRow>& rows, const char* operation, const Kernels& candidates) {
  std::string list;
  for (const auto& candidate : candidates) append(list, candidate.name);
  rows.push_back({.operation = operation, .format = {}, .device = "all", .candidates = list});
}

}  // namespace

std::vector<SupportRow> support(const Library& library) {
  const device::DeviceCaps& cpu = library.state()->cpu;
  const device::DeviceCaps reference = device::reference_caps();
  const std::string isa(device::to_string(cpu.isa));
  std::vector<SupportRow> rows;
  for (const quant::Format* format : quant::all_formats()) {
    const std::string name(format->name);
    for (const auto precision : {kernels::Precision::kStandard, kernels::Precision::kHigh}) {
      rows.push_back({.operation = "linear " + std::string(kernels::to_string(precision)),
                      .format = name,
                      .device = "cpu " + isa,
                      .candidates = linear_candidates(*format, cpu, precision)});
    }
    rows.push_back({.operation = "linear exact",
                    .format = name,
                    .device = "reference",
                    .candidates = linear_candidates(*format, reference, kernels::Precision::kExact)});
  }
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
