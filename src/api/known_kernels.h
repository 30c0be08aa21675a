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

/// The same of a configuration, with matrices in these formats. Errors: those of model::dummy_tensors besides.
Result<std::vector<device::CompileUnit>> units_of_config(const io::RawConfig& config, const model::FormatOf& formats,
                                                         const device::DeviceCaps& gpu, const ModelOptions& options,
                                                         int threads);

/// What models of any sizes and of every family that is known need of a GPU where nothing can be compiled for them,
/// each unit once: code with no sizes in it. Errors: those of plan_for.
Result<std::vector<device::CompileUnit>> any_size_units(const device::DeviceCaps& gpu);

/// All device code of the configurations of configs/ and of its list of sizes on a GPU, each unit once. Every field of
/// `options` counts; besides, caches of fp8 are served where kv_dtype is "auto" and the GPU knows that type, as many
/// sequences as are decoded at once, and `deterministic`. With any_size_units. Errors: those of plan_for.
Result<std::vector<device::CompileUnit>> known_units(const device::DeviceCaps& gpu, const ModelOptions& options,
                                                     int threads);

}  // namespace pagoda::api
