// What a release packs and `pagoda warm` makes: the device code of models that people run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/describe.h"
#include "device/compile_unit.h"
#include "pagoda/model.h"

namespace pagoda::api {

/// The files of configs/, by their names there.
std::span<const device::EmbeddedSource> known_configs();

/// All device code of a model on a GPU, each unit once. Errors: those of plan_for.
Result<std::vector<device::CompileUnit>> units_of(const model::ModelDescription& described,
                                                  const device::DeviceCaps& gpu, const ModelOptions& options,
                                                  int threads);

/// All device code of the configurations of configs/ and of its list of sizes on a GPU, each unit once. Every field of
/// `options` counts; where kv_dtype is "auto", caches of fp8 are served too if the GPU knows that type, and besides
/// max_running as many sequences as are decoded at once. Errors: those of plan_for.
Result<std::vector<device::CompileUnit>> known_units(const device::DeviceCaps& gpu, const ModelOptions& options,
                                                     int threads);

}  // namespace pagoda::api
