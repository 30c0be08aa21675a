// pack_kernels NVRTC FOLDER OUT: compiles the device code of every model of configs/ for every GPU that Pagoda knows,
// with the NVRTC of that path, and packs it into one file for a release. What is compiled is kept in FOLDER, so that
// the next run compiles only what has changed. Prints how many kernels there are, and for each architecture how many.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>
#include <tuple>

#include "api/known_kernels.h"
#include "base/file.h"
#include "device/cuda/compiler.h"
#include "kernels/cuda/embedded.h"

namespace pagoda {
namespace {

using device::cuda::Compiler;
using device::cuda::KernelPack;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Result<std::vector<device::CompileUnit>> units_for(std::span<const std::string_view> gpus) {
  std::vector<device::CompileUnit> units;
  for (const std::string_view name : gpus) {
    const device::DeviceCaps gpu = PAGODA_TRY(device::gpu_caps(name));
    std::ranges::move(PAGODA_TRY(api::known_units(gpu, {}, 1)), std::back_inserter(units));
  }
  std::ranges::sort(units);
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".new";
  std::ofstream file(temporary, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail(ErrorCode::kIoFailed, "{} cannot be written", path);
  }
  return Ok{};
}

/// Whether the file holds these units, made by this compiler, and nothing else.
bool is_current(const std::string& path, const std::map<Sha256, device::CompileUnit>& units,
                const std::string& made_by) {
  const auto file = File::open(path);
  if (!file.ok()) return false;
  std::vector<std::byte> bytes(file->size());
  if (!file->read(0, bytes).ok()) return false;
  const auto pack = KernelPack::open(bytes);
  if (!pack.ok() || (*pack)->compiler() != made_by || (*pack)->size() != units.size()) return false;
  return std::ranges::all_of(units, [&](const auto& unit) {
    const auto cubin = (*pack)->cubin(unit.first);
    return cubin.ok() && !cubin->empty();
  });
}

void print_counts(const std::map<Sha256, device::CompileUnit>& units) {
  std::map<std::string, int> counts;
  for (const auto& [key, unit] : units) ++counts[unit.architecture];
  std::printf("%zu kernels:", units.size());
  for (const auto& [architecture, count] : counts) std::printf(" %s %d", architecture.c_str(), count);
  std::printf("\n");
}

Status pack(const std::string& nvrtc_path, const std::string& folder, const std::string& out,
            std::span<const std::string_view> gpus) {
  const Clock::time_point begin = Clock::now();
  const auto nvrtc = PAGODA_TRY(device::cuda::Nvrtc::load({nvrtc_path}));
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Compiler compiler({.cache_folder = folder,
                     .sources = kernels::embedded_sources(),
                     .nvrtc = nvrtc,
                     .line_info = false,
                     .num_threads = threads});
  if (!compiler.cache_refusal().empty()) return fail(ErrorCode::kIoFailed, "{}", compiler.cache_refusal());
  const auto list = PAGODA_TRY(units_for(gpus));
  std::map<Sha256, device::CompileUnit> units;
  for (const device::CompileUnit& unit : list) units.emplace(PAGODA_TRY(compiler.pack_key(unit)), unit);
  print_counts(units);
  if (is_current(out, units, nvrtc->version())) return Ok{};
  PAGODA_TRY(compiler.compile_all(list));
  const double compile_seconds = seconds_since(begin);
  // Kernels of one source for one architecture are neighbours.
  std::vector<std::pair<const Sha256*, const device::CompileUnit*>> order;
  for (const auto& [key, unit] : units) order.emplace_back(&key, &unit);
  std::ranges::sort(order, {}, [](const auto& each) {
    return std::tie(each.second->source, each.second->architecture, each.second->defines);
  });
  std::vector<device::cuda::PackedKernel> kernels;
  std::size_t cubin_bytes = 0;
  for (const auto& [key, unit] : order) {
    kernels.push_back({.key = *key, .cubin = PAGODA_TRY(compiler.cubin(*unit))});
    cubin_bytes += kernels.back().cubin.size();
  }
  const auto bytes = device::cuda::write_kernel_pack(nvrtc->version(), kernels, threads);
  PAGODA_TRY(write_file(out, bytes));
  std::printf("%lld compiled by NVRTC %s in %.0f s, packed in %.0f s: %.1f MiB of %.1f MiB\n",
              static_cast<long long>(compiler.counters().compiled), nvrtc->version().c_str(), compile_seconds,
              seconds_since(begin) - compile_seconds, static_cast<double>(bytes.size()) / 1048576,
              static_cast<double>(cubin_bytes) / 1048576);
  return Ok{};
}

}  // namespace
}  // namespace pagoda

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s NVRTC FOLDER OUT [GPU...]\n", argv[0]);
    return 2;
  }
  std::vector<std::string_view> gpus(argv + 4, argv + argc);
  if (gpus.empty()) gpus = pagoda::device::known_gpus();
  const pagoda::Status status = pagoda::pack(argv[1], argv[2], argv[3], gpus);
  if (!status.ok()) std::fprintf(stderr, "pack_kernels: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
