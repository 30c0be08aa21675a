#include "kernels/embed/embed.h"

#include <gtest/gtest.h>

#include "linear_cases.h"

namespace pagoda::kernels {
namespace {

using namespace pagoda::kernels::testing;

/// Checks rows against the format's own decoding, scaled in T.
template <class T>
void expect_rows(const quant::Format& format, const Layout& layout, double scale, device::HostStream& stream) {
  const WeightShape shape{100, 5 * format.block_elements};
  const std::vector<std::byte> rows = random_rows(format, shape, 6);
  const OwnedWeight owned = pack_weight(format, layout, shape, rows, {});
  const std::vector<std::int32_t> ids = {99, 0, 17, 17, 33, 98, 1, 64, 15, 16, 3};
  const std::int64_t m = static_cast<std::int64_t>(ids.size());
  std::vector<T> out(static_cast<std::size_t>(m * (shape.k + 3)), T{-5});
  const tensor::MatrixView view{out.data(), tensor::dtype_of<T>(), m, shape.k, shape.k + 3};
  embed(owned.weight, {.ids = ids.data(), .output = view, .scale = scale}, stream);
  std::vector<float> want(static_cast<std::size_t>(shape.k));
  for (std::int64_t i = 0; i < m; ++i) {
    format.decode_row(rows.data() + ids[static_cast<std::size_t>(i)] * format.row_bytes(shape.k), shape.k, want.data());
    for (std::int64_t c = 0; c < shape.k; ++c) {
      ASSERT_EQ(view.row<T>(i)[c], static_cast<T>(want[static_cast<std::size_t>(c)]) * static_cast<T>(scale))
          << i << " " << c;
    }
    for (std::int64_t c = 0; c < 3; ++c) ASSERT_EQ(view.row<T>(i)[shape.k + c], T{-5});
  }
}

TEST(Embed, RowsOfEveryFormatAndLayout) {
  ThreadPool pool(2);
  device::HostStream stream(pool);
  for (const quant::Format* format : quant::all_formats()) {
    for (const Layout* layout : all_layouts()) {
      if (!layout->supports(*format)) continue;
      SCOPED_TRACE(::testing::Message() << format->name << " " << layout->name);
      for (double scale : {1.0, std::sqrt(640.0)}) {
        expect_rows<float>(*format, *layout, scale, stream);
        expect_rows<double>(*format, *layout, scale, stream);
      }
    }
  }
}

TEST(EmbedDeathTest, AnIdOutsideTheTableIsOurFault) {
  ThreadPool pool(1);
  device::HostStream stream(pool);
  const quant::Format& format = *quant::find_format("q4_1");
  const WeightShape shape{5, 32};
  const OwnedWeight owned = pack_weight(format, kRowsLayout, shape, random_rows(format, shape, 6), {});
  const std::int32_t id = 5;
  std::vector<float> out(32);
  EXPECT_DEATH(embed(owned.weight, {.ids = &id, .output = tensor::matrix(out.data(), 1, 32)}, stream),
               "id 5 of 5 rows");
}

}  // namespace
}  // namespace pagoda::kernels
