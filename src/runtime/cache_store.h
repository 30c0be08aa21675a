#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/cuda/cuda_device.h"
#include "device/device.h"
#include "kernels/kv_store/kv_layout.h"
#include "kv/group_config.h"
#include "model/plan.h"

namespace pagoda::runtime {

/// How much past the cache keeps. Neither: the plan's context. Both: so many tokens, as far as the bytes go.
struct CacheSize {
  std::int64_t tokens = 0;  ///< of the full groups
  std::int64_t bytes = 0;   ///< of all groups together, at most
};

/// The blocks of every cache group of a plan. A windowed group has no more than what the plan's rows can hold at once
/// and as much again for prefixes to be found. Errors: kInvalidArgument (a size below one block, or so large that
/// blocks have no number), naming the flag.
Result<std::vector<kv::GroupConfig>> size_cache(const model::Plan& plan, const CacheSize& size);

/// The most that sequences which run at once can hold (each a whole context), but no more than `bytes` of all groups
/// together. Error: kDeviceMemory, if that does not hold one context, with the numbers.
Result<std::vector<kv::GroupConfig>> fill_cache(const model::Plan& plan, std::int64_t bytes);

std::int64_t cache_bytes(std::span<const kv::GroupConfig> groups);

/// Keys and values of all layers; on a host in memory that becomes real when it is first written.
class CacheStore {
 public:
  CacheStore() = default;

  /// Errors: kOutOfMemory, kDeviceMemory.
  static Result<CacheStore> create(const model::Plan& plan, std::span<const kv::GroupConfig> groups,
                                   device::Device& device);

  /// Addresses for so many blocks on a GPU, no memory behind them yet. Error: kDeviceMemory.
  static Result<CacheStore> reserve(const model::Plan& plan, std::span<const kv::GroupConfig> most,
                                    device::cuda::CudaDevice& device);

  /// After `reserve`: puts memory behind the first blocks of each group, as many as it has; what is there stays as it
  /// is, under the same addresses. Error: kDeviceMemory.
  Status grow(std::span<const kv::GroupConfig> groups, device::cuda::CudaDevice& device);

  /// One set a layer; of reserved blocks all.
  std::span<const kernels::KvPages> pages() const { return pages_; }
  std::int64_t bytes() const;  ///< of memory

 private:
  device::Memory memory_;
  std::vector<device::cuda::AddressRange> ranges_;  // or one a layer
  std::vector<std::size_t> groups_;                 // of the layers
  std::vector<kernels::KvPages> pages_;
};

}  // namespace pagoda::runtime
