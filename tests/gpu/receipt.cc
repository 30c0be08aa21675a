#include "gpu/receipt.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "fixtures/gpu_receipt.h"

namespace pagoda::gpu {
namespace {

struct Notes {
  std::mutex mutex;
  std::map<device::CompileUnit, bool> passed;  // of all tests so far
  std::vector<device::CompileUnit> running;    // of the running test
  std::map<std::string, double> errors;
};

Notes& notes() {
  static Notes all;
  return all;
}

class Listener final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    Notes& all = notes();
    const std::scoped_lock lock(all.mutex);
    const bool skipped = info.result()->Skipped();
    for (const device::CompileUnit& unit : all.running) {
      if (skipped) continue;
      const auto at = all.passed.try_emplace(unit, true).first;
      at->second = at->second && info.result()->Passed();
    }
    all.running.clear();
  }
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

std::shared_ptr<device::cuda::Compiler> make_compiler(const std::string& cache_folder) {
  auto nvrtc = device::cuda::Nvrtc::load();
  if (!nvrtc.ok()) std::printf("%s\n", nvrtc.error().message.c_str());
  return std::make_shared<device::cuda::Compiler>(
      device::cuda::CompilerOptions{.cache_folder = cache_folder,
                                    .sources = kernels::embedded_sources(),
                                    .nvrtc = nvrtc.ok() ? *nvrtc : nullptr,
                                    .num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))});
}

void note_units(const std::vector<device::CompileUnit>& units) {
  Notes& all = notes();
  const std::scoped_lock lock(all.mutex);
  all.running.insert(all.running.end(), units.begin(), units.end());
}

void note_error(const std::string& operation, double error) {
  Notes& all = notes();
  const std::scoped_lock lock(all.mutex);
  double& worst = all.errors.try_emplace(operation, 0.0).first->second;
  worst = error <= worst ? worst : error;
}

int run_tests(const std::string& verdict) {
  testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  const int result = RUN_ALL_TESTS();
  for (const auto& [operation, error] : notes().errors) {
    std::printf("largest error of %s: %.3g\n", operation.c_str(), error);
  }
  std::string text;
  for (const auto& [unit, passed] : notes().passed) {
    text += fixtures::unit_key(unit) + "\t" + unit.architecture + "\t" + unit.source + "\t" + joined(unit.defines) +
            "\t" + verdict + "\t" + (passed ? "passed" : "failed") + "\n";
  }
  std::printf("receipt of %zu units:\n%s", notes().passed.size(), text.c_str());
  if (const char* path = std::getenv("PAGODA_RECEIPT"); path != nullptr && *path != 0) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) {
      std::printf("%s cannot be written\n", path);
      return 1;
    }
  }
  return result;
}

}  // namespace pagoda::gpu
