#include "kernels/attention/prefill_sm90_plan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "base/format.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kMostSharedBytes = 227 * 1024;
constexpr std::array<std::int64_t, 6> kDims = {64, 80, 96, 128, 192, 256};

bool takes_dim(std::int64_t dim) { return std::find(kDims.begin(), kDims.end(), dim) != kDims.end(); }

PageMap encode(const device::cuda::Driver& driver, const PrefillSm90Problem& problem, std::int64_t dim, int tile_keys,
               const std::byte* first, std::int64_t num_pages, std::int64_t block_stride) {
  using namespace device::cuda;
  const auto wide = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const std::int64_t head_bytes = problem.block_size * (problem.key_dim + problem.value_dim) * 2;
  const std::uint64_t sizes[4] = {wide(dim), wide(problem.block_size), wide(problem.kv_heads), wide(num_pages)};
  const std::uint64_t strides[3] = {wide(dim * 2), wide(head_bytes), wide(block_stride)};
  const auto slots = prefill_box_slots(static_cast<std::int32_t>(problem.block_size), tile_keys);
  const std::uint32_t box[4] = {64, static_cast<std::uint32_t>(slots), 1, 1};
  const std::uint32_t steps[4] = {1, 1, 1, 1};
  TensorMap map;
  driver.check(driver.api().tensor_map_encode_tiled(&map, kTensorMapBf16, 4, const_cast<std::byte*>(first), sizes,
                                                    strides, box, steps, kTensorMapNoInterleave, kTensorMapSwizzle128,
                                                    kTensorMapPromotion256, kTensorMapFillZeros),
               "describing cache pages to the copy engine");
  return std::bit_cast<PageMap>(map);
}

}  // namespace

PrefillSm90Variant prefill_sm90_variant(std::int64_t key_dim, std::int64_t value_dim) {
  if (std::max(key_dim, value_dim) <= 64) return {.warpgroups = 3, .keys = 128, .stages = 2};
  if (value_dim <= 128 && key_dim + value_dim <= 320) return {.warpgroups = 2, .keys = 128, .stages = 2};
  return {.warpgroups = 2, .keys = 64, .stages = 2};
}

std::optional<PrefillSm90Plan> plan_prefill_sm90(const PrefillSm90Problem& problem, const PrefillSm90Variant& variant) {
  const std::int64_t rows = variant.warpgroups * 64;
  const std::int64_t group = problem.heads / problem.kv_heads;
  const std::int64_t shared =
      prefill_sm90_shared_bytes(problem.key_dim, problem.value_dim, rows, variant.keys, variant.stages);
  const bool block_fits = std::has_single_bit(static_cast<std::uint64_t>(problem.block_size)) &&
                          problem.block_size >= 8 && problem.block_size <= 256;
  if (!takes_dim(problem.key_dim) || !takes_dim(problem.value_dim) || !block_fits) return std::nullopt;
  if (group > 64 || shared > kMostSharedBytes) return std::nullopt;
  return PrefillSm90Plan{
      .variant = variant,
      .unit = {.source = "kernels/attention/cuda_prefill_sm90.cu",
               .defines = {pagoda::format("HEAD_DIM_K={}", problem.key_dim),
                           pagoda::format("HEAD_DIM_V={}", problem.value_dim), pagoda::format("GROUP={}", group),
                           pagoda::format("WARPGROUPS={}", variant.warpgroups), pagoda::format("KEYS={}", variant.keys),
                           pagoda::format("STAGES={}", variant.stages),
                           pagoda::format("SOFTCAP={}", problem.softcap ? 1 : 0)},
               .architecture = "sm_90a"},
      .item_tokens = rows / group,
      .threads = static_cast<std::uint32_t>(variant.warpgroups + 1) * 128,
      .shared_bytes = shared};
}

std::uint32_t prefill_sm90_blocks(std::int64_t num_items, std::int64_t kv_heads, std::int64_t num_sms) {
  return static_cast<std::uint32_t>(std::min(num_items * kv_heads, num_sms));
}

void set_page_maps(const device::cuda::Driver& driver, const PrefillSm90Problem& problem, int tile_keys,
                   const void* pages, std::int64_t num_pages, std::int64_t block_stride, PrefillSm90Params& params) {
  PAGODA_CHECK(block_stride % 16 == 0 && reinterpret_cast<std::uintptr_t>(pages) % 16 == 0,
               "pages must be aligned to 16 bytes");
  const auto* first = static_cast<const std::byte*>(pages);
  params.keys = encode(driver, problem, problem.key_dim, tile_keys, first, num_pages, block_stride);
  params.values = encode(driver, problem, problem.value_dim, tile_keys,
                         first + problem.block_size * problem.key_dim * 2, num_pages, block_stride);
}

}  // namespace pagoda::kernels
