// What the tests of whole models on a GPU share: the library, the goldens' folders, runners over small models.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "fixtures/hf_model.h"
#include "fixtures/runner_driver.h"
#include "pagoda/pagoda.h"

namespace pagoda::models {

/// Where compiled kernels are kept, so that each unit is compiled once for all tests.
const std::string& cache_folder();
void set_cache_folder(const std::string& folder);

const Library& library();

/// A golden with its model written to a folder of its own, once.
struct GoldenModel {
  fixtures::HfGolden golden;
  fixtures::TemporaryFolder folder;
};
const GoldenModel& golden_model(const std::string& name);

/// The bounds of a logit's error, in standard deviations of all logits: over a cache of bf16, and of e4m3.
inline constexpr double kBound = 6e-2;
inline constexpr double kFp8Bound = 0.4;

/// A runner on the GPU with all it stands on; its device is the program's.
class GpuRunner {
 public:
  GpuRunner(const io::ModelFile& file, model::PlanOptions options, const runtime::CacheSize& cache = {});

  runtime::Runner& operator*() { return *runner_; }
  runtime::Runner* operator->() { return runner_.get(); }
  static device::cuda::CudaDevice& device();

 private:
  ThreadPool pool_;
  std::unique_ptr<runtime::Runner> runner_;
};

/// A small model from a file in memory.
struct SmallModel {
  explicit SmallModel(const fixtures::TinyConfig& config)
      : bytes(fixtures::TinyModel(config).bytes()), file(fixtures::open_bytes(bytes).value()), vocab(config.vocab) {}
  SmallModel(const SmallModel&) = delete;
  SmallModel& operator=(const SmallModel&) = delete;

  std::string bytes;
  io::ModelFile file;
  std::int64_t vocab;
};

/// Of three families: grouped heads, windows with norms on both sides, biases; in formats that travel differently.
std::vector<fixtures::TinyConfig> small_configs();
model::PlanOptions small_options();

/// The reference device's logits of a sequence, (ids, vocabulary).
std::vector<float> reference_logits(const SmallModel& model, const std::vector<std::int32_t>& ids);

double deviation(const std::vector<float>& logits);
/// Largest difference of two sets of logits over the deviation of the second; infinite if one is not finite.
double logit_error(const std::vector<float>& got, const std::vector<float>& want);
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Expects each id to have, by the reference, the best logit or one as near to it as the bound allows.
void expect_greedy(const SmallModel& model, const std::vector<std::int32_t>& prompt,
                   const std::vector<std::int32_t>& drawn, const std::string& what);

/// All that the tests of this program compile, for a GPU that need not be there.
std::vector<device::CompileUnit> all_units(const device::DeviceCaps& caps);

}  // namespace pagoda::models
