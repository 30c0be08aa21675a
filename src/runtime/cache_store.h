#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kernels/kv_store/kv_layout.h"
#include "kv/group_config.h"
#include "model/plan.h"

namespace pagoda::runtime {

/// How much past the cache keeps. One of the two; neither: the plan's context.
struct CacheSize {
  std::int64_t tokens = 0;  ///< of the full groups
  std::int64_t bytes = 0;   ///< of all groups together, at most
};

/// The blocks of every cache group of a plan. A windowed group has no more than what the plan's rows can hold at once
/// and as much again for prefixes to be found. Errors: kInvalidArgument (a size below one block, or so large that
/// blocks have no number), naming the flag.
Result<std::vector<kv::GroupConfig>> size_cache(const model::Plan& plan, const CacheSize& size);

/// Keys and values of all layers; on a host in memory that becomes real when it is first written.
class CacheStore {
 public:
  /// Errors: kOutOfMemory, kDeviceMemory.
  static Result<CacheStore> create(const model::Plan& plan, std::span<const kv::GroupConfig> groups,
                                   device::Device& device);

  std::span<const kernels::KvPages> pages() const { return pages_; }  ///< one set a layer
  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  device::Memory memory_;
  std::vector<kernels::KvPages> pages_;
};

}  // namespace pagoda::runtime
