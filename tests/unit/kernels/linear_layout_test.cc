#include <gtest/gtest.h>

#include "linear_cases.h"

namespace pagoda::kernels {
namespace {

using namespace pagoda::kernels::testing;

/// Calls `visit(format, layout, shape)` for each format and layout that holds it, at odd sizes.
template <class Visit>
void each_shape(Visit&& visit) {
  for (const quant::Format* format : quant::all_formats()) {
    for (const Layout* layout : all_layouts()) {
      if (!layout->supports(*format)) continue;
      for (std::int64_t n : {1, 5, 16, 17, 33, 100}) {
        for (std::int64_t blocks : {1, 3, 5, 18}) {
          SCOPED_TRACE(::testing::Message()
                       << format->name << " " << layout->name << " n " << n << " blocks " << blocks);
          visit(*format, *layout, WeightShape{n, blocks * format->block_elements});
        }
      }
    }
  }
}

TEST(LinearLayout, UnpackingGivesTheFileBack) {
  each_shape([](const quant::Format& format, const Layout& layout, WeightShape shape) {
    if (layout.unpack_row == nullptr) return;
    const std::vector<std::byte> rows = random_rows(format, shape, 3);
    const OwnedWeight owned = pack_weight(format, layout, shape, rows, {});
    const std::size_t row_bytes = static_cast<std::size_t>(format.row_bytes(shape.k));
    std::vector<std::byte> row(row_bytes, std::byte{0x5a});
    for (std::int64_t r = 0; r < shape.n; ++r) {
      layout.unpack_row(format, shape, owned.bytes.data(), r, row.data());
      ASSERT_EQ(std::memcmp(row.data(), rows.data() + static_cast<std::size_t>(r) * row_bytes, row_bytes), 0) << r;
    }
  });
}

TEST(LinearLayout, DecodingIsExact) {
  each_shape([](const quant::Format& format, const Layout& layout, WeightShape shape) {
    const std::vector<std::byte> rows = random_rows(format, shape, 4);
    const OwnedWeight owned = pack_weight(format, layout, shape, rows, {});
    const std::size_t k = static_cast<std::size_t>(shape.k);
    std::vector<float> want(k), got(k, -7.0f);
    for (std::int64_t r = 0; r < shape.n; ++r) {
      format.decode_row(rows.data() + r * format.row_bytes(shape.k), shape.k, want.data());
      layout.decode_row(format, shape, owned.bytes.data(), r, got.data());
      ASSERT_EQ(std::memcmp(got.data(), want.data(), k * sizeof(float)), 0) << r;
    }
  });
}

/// Scales that another layout has no bits for: negative ones, zeros of both signs, and NaN, which there is a row's of
/// 256 columns.
TEST(LinearLayout, EveryScaleOfNvfp4) {
  const quant::Format& format = *quant::find_format("nvfp4");
  constexpr std::int64_t kBlocks = 3, kBlock = quant::kSuperColumns;
  const WeightShape shape{256, kBlocks * kBlock};
  std::vector<std::byte> rows = random_rows(format, shape, 6);
  for (std::int64_t r = 0; r < shape.n; ++r) {
    std::byte* block = rows.data() + r * format.row_bytes(shape.k) + r % kBlocks * format.block_bytes;
    block[4 + r % 16] = static_cast<std::byte>(r);
    const std::int64_t group = 20 + r % 16 * 8;  // its codes: all there are
    for (int i = 0; i < 8; ++i) block[group + i] = static_cast<std::byte>((2 * i + 1) << 4 | 2 * i);
  }
  const OwnedWeight owned = pack_weight(format, kMmaCodesLayout, shape, rows, {});
  std::vector<float> want(static_cast<std::size_t>(shape.k)), got(want.size());
  for (std::int64_t r = 0; r < shape.n; ++r) {
    format.decode_row(rows.data() + r * format.row_bytes(shape.k), shape.k, want.data());
    kMmaCodesLayout.decode_row(format, shape, owned.bytes.data(), r, got.data());
    for (std::int64_t at = 0; at < shape.k; ++at) {
      const auto i = static_cast<std::size_t>(at);
      if (at / kBlock == r % kBlocks && (r & 0x7f) == 0x7f) {
        ASSERT_TRUE(std::isnan(got[i])) << r << " " << at;
      } else {
        ASSERT_EQ(bits_of_float(got[i]), bits_of_float(want[i])) << r << " " << at;
      }
    }
  }
}

TEST(LinearLayout, EveryByteIsWrittenWhateverTheRanges) {
  each_shape([](const quant::Format& format, const Layout& layout, WeightShape shape) {
    const std::vector<std::byte> rows = random_rows(format, shape, 5);
    const std::size_t bytes = layout.packed_bytes(format, shape);
    AlignedBytes whole(bytes, 0x11), parts(bytes, 0xee);
    layout.pack(format, shape, 0, shape.n, rows.data(), whole.data());
    for (std::int64_t first = 0; first < shape.n; first += layout.row_multiple) {
      const std::int64_t count = std::min(layout.row_multiple, shape.n - first);
      layout.pack(format, shape, first, count, rows.data() + first * format.row_bytes(shape.k), parts.data());
    }
    ASSERT_EQ(std::memcmp(whole.data(), parts.data(), bytes), 0);
  });
}

TEST(LinearLayout, PackedSizeStaysNearTheFiles) {
  const WeightShape shape{1600, 18 * 256};
  int compared = 0;
  for (const quant::Format* format : quant::all_formats()) {
    const double file = static_cast<double>(shape.n * format->row_bytes(shape.k));
    for (const Layout* layout : {&kInt8Rows16Layout, &kMmaCodesLayout}) {
      if (!layout->supports(*format)) continue;
      EXPECT_LE(static_cast<double>(layout->packed_bytes(*format, shape)), 1.04 * file)
          << format->name << " as " << layout->name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace pagoda::kernels
