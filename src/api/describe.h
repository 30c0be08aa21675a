// From a path to a plan, without touching weights: what opening and inspecting share.
#pragma once

#include <string>

#include "api/library_state.h"
#include "base/result.h"
#include "io/model_file.h"
#include "model/family.h"
#include "model/plan.h"
#include "pagoda/model.h"

namespace pagoda::api {

/// A file and the model it declares. `description` lends entries of `file`.
struct DescribedFile {
  io::ModelFile file;
  model::ModelDescription description;
};

/// Errors: those of io::open_model and model::describe_model; kInvalidArgument for a format of dummy weights that is
/// not known.
Result<DescribedFile> describe_file(const std::string& path, const ModelOptions& options);

/// The formats that weights are made up in: `dummy_weights`, bf16 if that is empty, and `dummy_head` of the head and
/// the embedding. Error: kInvalidArgument, with the names that are known.
Result<model::FormatOf> dummy_formats(const ModelOptions& options);

/// The part of ModelInfo that the header tells.
ModelInfo file_info(const DescribedFile& described, const ModelOptions& options);

/// The fields of ModelOptions against their ranges. Error: kInvalidArgument with the field's name.
Status check_options(const ModelOptions& options);

/// `check_options` first; `any_size` as model::PlanOptions has it. Errors: those of model::make_plan.
Result<model::Plan> plan_for(const model::ModelDescription& described, const device::DeviceCaps& caps,
                             const ModelOptions& options, int threads, bool any_size = false);

/// Prompt tokens of one row at most, if the options leave it open.
constexpr std::int64_t default_prefill_chunk(const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCuda ? 4096 : 512;
}

/// Rows of the largest blocks that products of many rows take: sched::Limits::token_tile.
constexpr std::int32_t token_tile(const device::DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCuda ? 256 : 1;
}

/// Tokens of a step whose logits a GPU computes at once: what a captured step may have at most.
inline constexpr std::int32_t kMostGpuHeadRows = 256;

}  // namespace pagoda::api
