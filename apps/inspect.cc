#include "pagoda/inspect.h"

#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "apps/json.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

void print_facts(const char* title, std::span<const Fact> facts) {
  std::printf("\n%s\n", title);
  for (const Fact& fact : facts) std::printf("  %-42s %s\n", fact.name.c_str(), fact.value.c_str());
}

void print_summary(const ModelInfo& info) {
  std::printf("%s: %s, %s, %.1f million parameters, %.1f MB, context %lld\n", info.name.c_str(),
              info.architecture.c_str(), info.format.c_str(), static_cast<double>(info.num_parameters) / 1e6,
              static_cast<double>(info.file_bytes) / 1e6, static_cast<long long>(info.trained_context));
}

void print_tensors(std::span<const TensorInfo> tensors) {
  std::printf("\ntensors\n");
  for (const TensorInfo& tensor : tensors) {
    std::string shape;
    for (const std::int64_t size : tensor.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(size);
    std::printf("  %-34s %-8s %-16s %12llu bytes at %llu\n", tensor.name.c_str(), tensor.format.c_str(), shape.c_str(),
                static_cast<unsigned long long>(tensor.bytes), static_cast<unsigned long long>(tensor.offset));
  }
}

void print_plan(const Inspection& inspection) {
  std::printf("\nplan\n");
  const auto width = [&inspection](const std::string PlanRow::*column) {
    std::size_t widest = 0;
    for (const PlanRow& row : inspection.plan) widest = std::max(widest, (row.*column).size());
    return static_cast<int>(widest);
  };
  const int candidates = width(&PlanRow::candidate);
  const int layouts = width(&PlanRow::layout);
  for (const PlanRow& row : inspection.plan) {
    std::printf("  %-14s %-9s %-*s  %-*s  %s\n", row.stage.c_str(), row.layers.c_str(), candidates,
                row.candidate.c_str(), layouts, row.layout.c_str(), row.reason.c_str());
  }
  print_facts("memory", inspection.memory);
}

void print_support(std::span<const SupportRow> rows) {
  int operations = 0, formats = 0, devices = 0;
  for (const SupportRow& row : rows) {
    operations = std::max(operations, static_cast<int>(row.operation.size()));
    formats = std::max(formats, static_cast<int>(row.format.size()));
    devices = std::max(devices, static_cast<int>(row.device.size()));
  }
  std::printf("support\n");
  for (const SupportRow& row : rows) {
    std::printf("  %-*s  %-*s  %-*s  %s\n", operations, row.operation.c_str(), formats, row.format.c_str(), devices,
                row.device.c_str(), row.candidates.c_str());
  }
}

}  // namespace

Status inspect(const Arguments& arguments) {
  const Library library = PAGODA_TRY(Library::create(library_options(arguments)));
  const std::vector<SupportRow> rows = arguments.support ? support(library) : std::vector<SupportRow>{};
  if (arguments.model.empty()) {
    if (arguments.json) {
      std::printf("%s\n", support_to_json(rows).c_str());
    } else {
      print_support(rows);
    }
    return Ok{};
  }
  InspectOptions options{
      .model = PAGODA_TRY(model_options(arguments, false)), .plan = arguments.plan, .caps = arguments.caps};
  const Inspection inspection = PAGODA_TRY(pagoda::inspect(library, arguments.model, options));
  if (arguments.json) {
    std::printf("%s\n", to_json(inspection, rows, arguments.tensors).c_str());
    return Ok{};
  }
  print_summary(inspection.info);
  print_facts("what the file says", inspection.metadata);
  print_facts("what Pagoda reads in it", inspection.spec);
  if (arguments.tensors) print_tensors(inspection.tensors);
  if (arguments.plan) print_plan(inspection);
  if (arguments.support) {
    std::printf("\n");
    print_support(rows);
  }
  return Ok{};
}

}  // namespace pagoda::apps
