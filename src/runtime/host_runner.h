#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/plan.h"
#include "model/weights.h"
#include "runtime/cache_store.h"
#include "runtime/runner.h"

namespace pagoda::runtime {

/// A runner on the host: the CPU or the reference, as the plan says. Steps are done when `submit` returns. The pool and
/// the device are lent; its calling thread is the runner's. `never_drawn`: ascending ids that no row may bring,
/// whatever its logits say. Errors: those of size_cache and Decoder::prepare; kOutOfMemory.
Result<std::unique_ptr<Runner>> make_host_runner(model::Plan plan, model::Weights weights, ThreadPool& pool,
                                                 device::Device& device, const CacheSize& cache = {},
                                                 std::vector<std::int32_t> never_drawn = {});

/// Bytes a runner of this plan takes beside the weights, before there is one. On a GPU whose cache is of no set size,
/// the least.
Result<RunnerMemory> runner_memory(const model::Plan& plan, const CacheSize& cache = {});

}  // namespace pagoda::runtime
