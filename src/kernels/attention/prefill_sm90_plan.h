// What a host needs to run cuda_prefill_sm90.cu: whether it takes a problem, its unit, its sizes, its tensor maps.
#pragma once

#include <cstdint>
#include <optional>

#include "device/compile_unit.h"
#include "device/cuda/driver.h"
#include "kernels/attention/cuda_prefill_sm90.h"

namespace pagoda::kernels {

/// Attention of one kind of layer over pages of bf16.
struct PrefillSm90Problem {
  std::int64_t heads, kv_heads, key_dim, value_dim;
  std::int64_t block_size;
  bool softcap = false;
};

/// Constants of the unit.
struct PrefillSm90Variant {
  int warpgroups = 2;  ///< that multiply, of 64 rows each
  int keys = 128;      ///< of a tile: 64, 80, 96, 128, 160 or 176
  int stages = 2;      ///< tiles of keys and of values on their way; a power of two
};

struct PrefillSm90Plan {
  PrefillSm90Variant variant;
  device::CompileUnit unit;   ///< its function is `prefill_sm90`
  std::int64_t item_tokens;   ///< at most so many tokens an item
  std::uint32_t threads;      ///< of a block
  std::int64_t shared_bytes;  ///< dynamic, of a block
};

/// The variant for these dims, chosen by measurements on an H200 (docs/decisions/0030).
PrefillSm90Variant prefill_sm90_variant(std::int64_t key_dim, std::int64_t value_dim);

/// Pure. Nothing if the kernel does not take the problem: dims that are none of 64, 80, 96, 128, 192, 256, block sizes
/// that are no power of two in 8 … 256, groups of more than 64 heads, tiles beyond a multiprocessor's shared memory.
std::optional<PrefillSm90Plan> plan_prefill_sm90(const PrefillSm90Problem& problem, const PrefillSm90Variant& variant);
inline std::optional<PrefillSm90Plan> plan_prefill_sm90(const PrefillSm90Problem& problem) {
  return plan_prefill_sm90(problem, prefill_sm90_variant(problem.key_dim, problem.value_dim));
}

/// Blocks of a launch.
std::uint32_t prefill_sm90_blocks(std::int64_t num_items, std::int64_t kv_heads, std::int64_t num_sms);

/// Writes both maps of `params`, for a layer's pages: (num_pages) of block_stride bytes from `pages`, a multiple of 16,
/// as is the address. Once a layer: the maps stay good as long as the pages lie there. Throws DeviceError.
void set_page_maps(const device::cuda::Driver& driver, const PrefillSm90Problem& problem, int tile_keys,
                   const void* pages, std::int64_t num_pages, std::int64_t block_stride, PrefillSm90Params& params);

}  // namespace pagoda::kernels
