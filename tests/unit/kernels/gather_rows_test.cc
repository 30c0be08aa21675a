#include "kernels/gather_rows/gather_rows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace pagoda::kernels {
namespace {

template <class T>
void expect_gathered(device::HostStream& stream) {
  constexpr std::int64_t kCols = 13, kStride = 17, kOutStride = 14;
  std::vector<T> input(150 * kStride);
  std::iota(input.begin(), input.end(), T{1});
  std::vector<std::int64_t> rows(130);  // of several workers
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i * 29 % 150);
  std::vector<T> output(rows.size() * kOutStride, T{-5});
  const tensor::DType dtype = tensor::dtype_of<T>();
  gather_rows({.input = {input.data(), dtype, 150, kCols, kStride},
               .output = {output.data(), dtype, std::ssize(rows), kCols, kOutStride},
               .rows = rows.data()},
              stream);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t c = 0; c < kOutStride; ++c) {
      const T want = c < kCols ? input[static_cast<std::size_t>(rows[i] * kStride + c)] : T{-5};
      ASSERT_EQ(output[i * kOutStride + static_cast<std::size_t>(c)], want) << i << " " << c;
    }
  }
}

TEST(GatherRows, AreTheInputs) {
  ThreadPool pool(2);
  device::HostStream stream(pool);
  expect_gathered<float>(stream);
  expect_gathered<double>(stream);
}

}  // namespace
}  // namespace pagoda::kernels
