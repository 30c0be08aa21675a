#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "io/model_file.h"
#include "kernels/linear/linear.h"
#include "model/plan.h"

namespace pagoda::model {

/// Called by the loading thread now and then: bytes of the file read so far, and all that will be read.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// All weights of a model in memory, each once, in the layout of the plan. Lives as long as anything prepared with it.
class Weights {
 public:
  /// Reads the tensors by pieces of a few MiB and packs them into the device's memory, on all workers of the pool.
  /// Errors: kFileUnreadable, kFileChanged, kOutOfMemory, kDeviceMemory.
  static Result<Weights> load(const Plan& plan, const io::ModelFile& file, ThreadPool& pool, device::Device& device,
                              const LoadProgress& progress = {});

  /// A weight of products. `bias_role` is the role of its bias; without one, or if the model has none, it has no bias.
  kernels::LinearWeight matrix(Role role, std::int32_t layer, Role bias_role) const;
  kernels::LinearWeight matrix(Role role, std::int32_t layer) const { return matrix(role, layer, role); }

  /// A norm, a bias or the like, in the device's memory; null if the model has none.
  const float* vector(Role role, std::int32_t layer) const;

  /// Role::kRopeDivisors, which tables are made of, in the host's memory; empty if the model has none.
  std::span<const float> rope_divisors() const { return rope_divisors_; }

  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  struct Stored {
    WeightPlan plan;
    std::byte* data = nullptr;
  };
  class Loader;

  const Stored* find(Role role, std::int32_t layer) const;

  device::Memory memory_;
  std::vector<Stored> stored_;
  std::vector<float> rope_divisors_;
  std::vector<std::int32_t> index_;  // (layers + 1, roles): into stored_, or -1
};

}  // namespace pagoda::model
