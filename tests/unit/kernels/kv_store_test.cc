#include "kernels/kv_store/kv_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/checked.h"
#include "base/numbers.h"
#include "unit/kernels/candidate_runs.h"

namespace pagoda::kernels {
namespace {

using tensor::DType;
using tensor::matrix;
using testing::host_candidates;
using testing::normal_floats;

TEST(KvLayout, EveryElementHasAPlaceOfItsOwn) {
  for (const std::int64_t block_size : {8, 16, 32, 256}) {
    const KvLayout layout{DType::kF16, block_size, 3, 20, 12};
    std::set<std::int64_t> places;
    for (std::int64_t head = 0; head < 3; ++head) {
      for (std::int64_t slot = 0; slot < block_size; ++slot) {
        for (std::int64_t dim = 0; dim < 20; ++dim) places.insert(layout.key_offset(head, slot, dim));
        for (std::int64_t dim = 0; dim < 12; ++dim) places.insert(layout.value_offset(head, slot, dim));
      }
    }
    EXPECT_EQ(std::ssize(places), layout.block_elements());
    EXPECT_EQ(*places.rbegin(), layout.block_elements() - 1);
    EXPECT_EQ(kv_bytes_per_block(layout), block_size * 3 * 32 * 2);
  }
}

TEST(KvLayout, NeighbouringKeysAreNeighboursInMemory) {
  const KvLayout layout{DType::kF16, 32, 2, 64, 64};
  EXPECT_EQ(layout.key_offset(1, 18, 5), layout.key_offset(1, 17, 5) + 1);
  EXPECT_EQ(layout.key_offset(1, 18, 5) % 16, 2);
}

/// What a cache element's bits are for a value.
std::uint32_t bits_for(float x, DType dtype) {
  if (dtype == DType::kF16) return float_to_f16(x);
  if (dtype == DType::kBf16) return float_to_bf16(x);
  return bits_of_float(x);
}

std::uint32_t bits_at(const std::vector<std::byte>& pages, std::int64_t byte, DType dtype) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, pages.data() + byte, static_cast<std::size_t>(tensor::size_of(dtype)));
  return bits;
}

// CASES F1: a padding token (slot -1) writes nothing; nothing but the named slots changes.
TEST(KvStore, WritesTheNamedSlotsAndNothingElse) {
  for (const DType dtype : {DType::kF16, DType::kBf16, DType::kF32}) {
    for (const std::int64_t block_size : {8, 16, 64}) {
      const KvLayout layout{dtype, block_size, 3, 20, 37};
      const std::int64_t stride = round_up<std::int64_t>(layout.block_bytes(), 64) + 64;
      const std::vector<std::int64_t> slots{4 * block_size + 3, -1, 0, block_size + 7, 2 * block_size - 2, -1};
      std::vector<float> key = normal_floats(6 * 3 * 20, 1), value = normal_floats(6 * 3 * 37, 2);
      key[0] = 65520.0f;  // beyond binary16
      key[1] = 1e-7f;     // below its normals
      value[0] = -std::numeric_limits<float>::infinity();
      for (const auto& [kernel, caps] : host_candidates(kv_store_kernels(), KvStoreProblem{.layout = layout})) {
        std::vector<std::byte> pages(static_cast<std::size_t>(5 * stride), std::byte{0xa5});
        std::vector<std::byte> want = pages;
        for (std::size_t token = 0; token < slots.size(); ++token) {
          if (slots[token] < 0) continue;
          const std::int64_t page = slots[token] / block_size * stride, slot = slots[token] % block_size;
          const auto put = [&](std::int64_t element, float x) {
            const std::uint32_t bits = bits_for(x, dtype);
            std::memcpy(want.data() + page + element * tensor::size_of(dtype), &bits,
                        static_cast<std::size_t>(tensor::size_of(dtype)));
          };
          for (std::int64_t head = 0; head < 3; ++head) {
            for (std::int64_t dim = 0; dim < 20; ++dim) {
              put(layout.key_offset(head, slot, dim), key[token * 60 + static_cast<std::size_t>(head * 20 + dim)]);
            }
            for (std::int64_t dim = 0; dim < 37; ++dim) {
              put(layout.value_offset(head, slot, dim), value[token * 111 + static_cast<std::size_t>(head * 37 + dim)]);
            }
          }
        }
        ThreadPool pool(2, false);
        device::HostStream stream(pool);
        device::HostDevice device(caps);
        kernel->prepare({.layout = layout}, {}, device)
            .value()
            .launch({matrix(key.data(), 6, 60), matrix(value.data(), 6, 111), slots.data(), {pages.data(), stride}},
                    stream);
        EXPECT_EQ(pages, want) << kernel->name << " " << tensor::name_of(dtype) << " " << block_size;
      }
    }
  }
}

TEST(KvStore, NanStaysNan) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    const KvLayout layout{dtype, 16, 1, 1, 1};
    for (const auto& [kernel, caps] : host_candidates(kv_store_kernels(), KvStoreProblem{.layout = layout})) {
      std::vector<std::byte> pages(64, std::byte{0});
      float nan = float_of_bits(0x7f800001u);
      const std::int64_t slot = 5;
      ThreadPool pool(1);
      device::HostStream stream(pool);
      device::HostDevice device(caps);
      kernel->prepare({.layout = layout}, {}, device)
          .value()
          .launch({matrix(&nan, 1, 1), matrix(&nan, 1, 1), &slot, {pages.data(), 64}}, stream);
      const auto bits = static_cast<std::uint16_t>(bits_at(pages, layout.key_offset(0, 5, 0) * 2, dtype));
      EXPECT_TRUE(std::isnan(dtype == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits))) << kernel->name;
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
