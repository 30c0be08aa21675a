// Whole models on the GPU: against the logits of another implementation and of the reference device, and the promises
// that are about bits.
//
//   gpu_models [--compile-only h200] [--cache FOLDER] [gtest's flags]
//
// Kernels are kept in FOLDER, or in one that goes with the program. $PAGODA_MODELS is a folder with
// SmolLM2-135M-Instruct.Q4_1.gguf; without it what needs the file is skipped.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>

#include "gpu/models/models.h"
#include "gpu/receipt.h"

namespace {

using namespace pagoda;  // NOLINT: a program's main

bool compile(const device::DeviceCaps& caps) {
  const auto begin = std::chrono::steady_clock::now();
  const auto units = models::all_units(caps);
  const auto compiler = gpu::make_compiler(models::cache_folder());
  const Status compiled = compiler->compile_all(units);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%zu units: %lld compiled, %lld kept, in %.1f s\n", units.size(),
              static_cast<long long>(compiler->counters().compiled), static_cast<long long>(compiler->counters().kept),
              took.count());
  if (!compiled.ok()) std::printf("%s\n", compiled.error().message.c_str());
  return compiled.ok();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string folder, caps_name;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--cache") folder = argv[i + 1];
    if (std::string_view(argv[i]) == "--compile-only") caps_name = argv[i + 1];
  }
  std::optional<fixtures::TemporaryFolder> own;
  if (folder.empty()) folder = own.emplace().path();
  models::set_cache_folder(folder);
  if (!caps_name.empty()) return compile(device::gpu_caps(caps_name).value()) ? 0 : 1;
  if (!compile(models::GpuRunner::device().caps())) return 1;
  return gpu::run_tests("models");
}
