// Every CUDA candidate against the reference in double, on the same inputs: at once, captured and replayed.
//
//   gpu_parity [--compile-only h200] [--cache FOLDER] [--formats q4_k,mxfp4] [gtest's flags]
//
// With --formats only the products of these are compiled beforehand: for runs of *Linear* and *Embed* alone.
// Kernels are kept in FOLDER, or in one that goes with the program. --compile-only compiles what the tests need, for a
// GPU that need not be there, and ends.
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "fixtures/hf_model.h"
#include "gpu/parity/attention_cases.h"
#include "gpu/parity/linear_cases.h"
#include "gpu/parity/parity.h"
#include "gpu/parity/stage_cases.h"
#include "gpu/receipt.h"

namespace {

using namespace pagoda;  // NOLINT: a program's main

std::vector<device::CompileUnit> all_units(const device::DeviceCaps& caps) {
  std::vector<device::CompileUnit> units;
  const auto take = [&](const std::vector<device::CompileUnit>& part) {
    units.insert(units.end(), part.begin(), part.end());
  };
  take(parity::linear_units(caps));
  if (parity::chosen_formats.empty()) {
    take(parity::stage_units(caps));
    take(parity::attention_units(caps));
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

bool compile(device::cuda::Compiler& compiler, const device::DeviceCaps& caps) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<device::CompileUnit> units = all_units(caps);
  const Status compiled = compiler.compile_all(units);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto counters = compiler.counters();
  std::printf("%zu units: %lld compiled, %lld kept, in %.1f s\n", units.size(),
              static_cast<long long>(counters.compiled), static_cast<long long>(counters.kept), took.count());
  if (!compiled.ok()) std::printf("%s\n", compiled.error().message.c_str());
  return compiled.ok();
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder, caps_name;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--cache") folder = argv[i + 1];
    if (std::string_view(argv[i]) == "--compile-only") caps_name = argv[i + 1];
    if (std::string_view(argv[i]) == "--formats") {
      std::istringstream list(argv[i + 1]);
      for (std::string name; std::getline(list, name, ',');) parity::chosen_formats.push_back(name);
    }
  }
  testing::InitGoogleTest(&argc, argv);
  std::optional<fixtures::TemporaryFolder> own;
  if (folder.empty()) folder = own.emplace().path();
  if (!caps_name.empty()) return compile(*gpu::make_compiler(folder), device::gpu_caps(caps_name).value()) ? 0 : 1;
  parity::Gpu::open(folder);
  if (!compile(parity::Gpu::get().device().compiler(), parity::Gpu::get().caps())) return 1;
  return gpu::run_tests("parity");
}
