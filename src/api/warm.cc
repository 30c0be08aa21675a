#include "pagoda/warm.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include "api/devices.h"
#include "api/known_kernels.h"
#include "io/json_config.h"

namespace pagoda {
namespace {

using Clock = std::chrono::steady_clock;

Result<device::DeviceCaps> gpu_of(const Library& library, const WarmOptions& options) {
  const std::string& device = options.model.device;
  if (device == "cpu" || device == "reference") {
    return fail_param(ErrorCode::kInvalidArgument, "device", "only GPUs have kernels to make, not the device {}",
                      device);
  }
  auto caps = api::choose_caps(*library.state(), device == "auto" ? "cuda" : device, options.caps);
  if (caps.ok() || kind_of(caps.error().code) != ErrorKind::kDevice) return caps;
  return fail(caps.error().code, "{}; kernels for a GPU that is not here are made with its name, as in --caps h200",
              caps.error().message);
}

Result<std::vector<device::CompileUnit>> wanted_units(const Library& library, const std::string& path,
                                                      const device::DeviceCaps& gpu, const ModelOptions& options) {
  const int threads = library.state()->threads;
  if (path.empty()) return api::known_units(gpu, options, threads);
  if (path.ends_with(".json") || !options.dummy_weights.empty()) {
    const model::FormatOf formats = PAGODA_TRY(api::dummy_formats(options));
    return api::units_of_config(PAGODA_TRY(io::read_json_config(path)), formats, gpu, options, threads);
  }
  const api::DescribedFile described = PAGODA_TRY(api::describe_file(path, options));
  return api::units_of(described.description, gpu, options, threads);
}

/// Compiling takes minutes, and is for nothing if its fruits cannot be kept.
Status check_folder(const Library& library, const device::cuda::Compiler& compiler,
                    std::span<const device::CompileUnit> units) {
  const bool packed = std::ranges::all_of(units, [&](const auto& unit) { return compiler.is_packed(unit); });
  if (packed) return Ok{};
  if (!compiler.cache_refusal().empty()) {
    return fail(ErrorCode::kIoFailed, "kernels cannot be kept: {}", compiler.cache_refusal());
  }
  if (library.options().cache_folder.empty()) {
    return fail(ErrorCode::kIoFailed,
                "kernels cannot be kept: there is no folder for them; XDG_CACHE_HOME or HOME names one");
  }
  return Ok{};
}

Result<Warmed> make_kernels(const Library& library, const std::string& path, const WarmOptions& options) {
  const Clock::time_point begin = Clock::now();
  const device::DeviceCaps gpu = PAGODA_TRY(gpu_of(library, options));
  const auto units = PAGODA_TRY(wanted_units(library, path, gpu, options.model));
  const auto compiler = api::compiler_of(*library.state());
  PAGODA_TRY(check_folder(library, *compiler, units));
  const device::cuda::CompilerCounters before = compiler->counters();
  PAGODA_TRY(compiler->compile_all(units));
  const device::cuda::CompilerCounters after = compiler->counters();
  if (after.unwritten > before.unwritten) {
    return fail(ErrorCode::kIoFailed, "{} kernels could not be written to {}", after.unwritten - before.unwritten,
                library.options().cache_folder);
  }
  return Warmed{.gpu = gpu.name,
                .architecture = gpu.gpu.architecture(),
                .folder = compiler->cache_refusal().empty() ? library.options().cache_folder : "",
                .packed = after.packed - before.packed,
                .kept = after.kept - before.kept,
                .compiled = after.compiled - before.compiled,
                .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace

Result<Warmed> warm(const Library& library, const std::string& path, const WarmOptions& options) {
  try {
    return make_kernels(library, path, options);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "{}: there is not enough memory to make its kernels", path);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{}: {}", path, exception.what());
  }
}

}  // namespace pagoda
