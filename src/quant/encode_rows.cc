#include "quant/encode_rows.h"

#include <algorithm>
#include <cmath>

#include "quant/encoders/checkpoints.h"
#include "quant/formats.h"

namespace pagoda::quant {
namespace {

float peak_of(const float* values, std::int64_t count) {
  float peak = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float size = std::fabs(values[i]);
    peak = size > peak || std::isnan(size) ? size : peak;
  }
  return peak;
}

/// `cols` elements, at most one block of them.
void encode_fp8_block(const float* values, std::int64_t cols, float scale, FP8_E4M3::Block& block) {
  block.scale = scale;
  for (int i = 0; i < FP8_E4M3::kBlockElements; ++i) {
    block.codes[i] = i < cols && scale > 0 ? nearest_e4m3(values[i] / scale) : std::uint8_t{0};
  }
}

void encode_nvfp4_block(const float* values, std::int64_t cols, float tensor_scale, NVFP4::Block& block) {
  block = {};
  block.tensor_scale = tensor_scale;
  for (int g = 0; g < 16 && g * NVFP4::kGroup < cols; ++g) {
    const float* group = values + g * NVFP4::kGroup;
    const std::int64_t count = std::min<std::int64_t>(NVFP4::kGroup, cols - g * NVFP4::kGroup);
    const float wanted = tensor_scale > 0 ? peak_of(group, count) / 6 / tensor_scale : 0;
    block.scales[g] = nearest_e4m3(wanted);
    const float inverse = inverse_of(fp8_e4m3_to_float(block.scales[g]) * tensor_scale);
    for (int i = 0; i < count; ++i) {
      const int element = g * NVFP4::kGroup + i;
      const int code = std::isnan(wanted) ? 0 : nearest_fp4(group[i] * inverse);
      block.codes[element / 2] = static_cast<std::uint8_t>(block.codes[element / 2] | code << (element % 2 * 4));
    }
  }
}

template <class F>
void split_blocks(const std::byte* row, std::int64_t cols, SplitRow& out) {
  constexpr int kBits = F::kCoding.bits;
  constexpr int kGroup = F::kCoding.group;
  const auto* blocks = reinterpret_cast<const typename F::Block*>(row);
  out.codes.assign(static_cast<std::size_t>((cols * kBits + 7) / 8), 0);
  out.scales.clear();
  out.offsets.clear();
  for (std::int64_t column = 0; column < cols; ++column) {
    const typename F::Block& block = blocks[column / F::kBlockElements];
    const int element = static_cast<int>(column % F::kBlockElements);
    add_code<kBits>(out.codes.data(), static_cast<int>(column), F::code(block, element));
    if (element % kGroup != 0) continue;
    out.scales.push_back(F::scale_bits(block, element / kGroup));
    if constexpr (F::kCoding.offset == OffsetType::kValue) {
      out.offsets.push_back(F::offset_bits(block, element / kGroup));
    } else {
      out.offsets.push_back(0);
    }
  }
}

}  // namespace

void encode_fp8_channels(const float* values, std::int64_t rows, std::int64_t cols, std::byte* blocks) {
  auto* block = reinterpret_cast<FP8_E4M3::Block*>(blocks);
  for (std::int64_t row = 0; row < rows; ++row, values += cols) {
    const float scale = peak_of(values, cols) / 448;
    for (std::int64_t first = 0; first < cols; first += FP8_E4M3::kBlockElements) {
      encode_fp8_block(values + first, cols - first, scale, *block++);
    }
  }
}

void encode_fp8_tiles(const float* values, std::int64_t rows, std::int64_t cols, std::byte* blocks) {
  constexpr std::int64_t kSide = 128;
  const std::int64_t across = (cols + kSide - 1) / kSide;
  auto* all = reinterpret_cast<FP8_E4M3::Block*>(blocks);
  for (std::int64_t top = 0; top < rows; top += kSide) {
    const std::int64_t height = std::min(kSide, rows - top);
    for (std::int64_t b = 0; b < across; ++b) {
      const std::int64_t width = std::min(kSide, cols - b * kSide);
      float peak = 0;
      for (std::int64_t row = top; row < top + height; ++row) {
        peak = std::max(peak, peak_of(values + row * cols + b * kSide, width));
      }
      for (std::int64_t row = top; row < top + height; ++row) {
        encode_fp8_block(values + row * cols + b * kSide, width, peak / 448, all[row * across + b]);
      }
    }
  }
}

float nvfp4_divisor(float peak) {
  const float divisor = peak > 0 ? 6 * 448 / peak : 1;
  return std::isfinite(divisor) ? divisor : 1;
}

void encode_nvfp4(const float* values, std::int64_t rows, std::int64_t cols, float divisor, std::byte* blocks) {
  const float tensor_scale = 1 / divisor;
  auto* block = reinterpret_cast<NVFP4::Block*>(blocks);
  for (std::int64_t row = 0; row < rows; ++row, values += cols) {
    for (std::int64_t first = 0; first < cols; first += NVFP4::kBlockElements) {
      encode_nvfp4_block(values + first, cols - first, tensor_scale, *block++);
    }
  }
}

SplitBlocks find_splitter(const Format& format) {
  SplitBlocks found = nullptr;
  Formats::for_each([&]<class F>() {
    if constexpr (requires { F::kCoding; }) {
      if (format.name == F::kName) found = &split_blocks<F>;
    }
  });
  return found;
}

}  // namespace pagoda::quant
