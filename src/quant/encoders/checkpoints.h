// The blocks that Hugging Face checkpoints are taken apart from: affine groups, packed integers, MXFP8.
#pragma once

#include <type_traits>

#include "quant/encoders/blocks_of_32.h"
#include "quant/encoders/search.h"
#include "quant/formats/affine.h"
#include "quant/formats/mxfp8.h"
#include "quant/formats/packed.h"

namespace pagoda::quant {

template <int kBits, int kGroup, bool kHalf>
void encode_affine(const float* values, typename Affine<kBits, kGroup, kHalf>::Block& block) {
  using F = Affine<kBits, kGroup, kHalf>;
  constexpr int kMost = (1 << kBits) - 1;
  const auto narrow = [](float value) { return kHalf ? float_to_f16(value) : float_to_bf16(value); };
  const Line line = fit_line<kGroup>(values, kMost, false);
  block.scale = narrow(line.scale);
  // What rounding the scale moved is shared by both ends.
  block.bias = narrow(line.offset + 0.5f * static_cast<float>(kMost) * (line.scale - F::widen(block.scale)));
  const float inverse = inverse_of(F::widen(block.scale));
  const float offset = F::widen(block.bias);
  for (std::uint8_t& byte : block.codes) byte = 0;
  for (int i = 0; i < kGroup; ++i) {
    add_code<kBits>(block.codes, i, nearest_code(values[i] - offset, inverse, 0, kMost));
  }
}

template <class F>
requires std::is_base_of_v<Affine<F::kCoding.bits, F::kBlockElements, false>, F>
void encode(const float* values, typename F::Block& block, F) {
  encode_affine<F::kCoding.bits, F::kBlockElements, false>(values, block);
}

template <class F>
requires std::is_base_of_v<Affine<F::kCoding.bits, F::kBlockElements, true>, F>
void encode(const float* values, typename F::Block& block, F) {
  encode_affine<F::kCoding.bits, F::kBlockElements, true>(values, block);
}

/// Symmetric: the zero point is the middle of the codes. Scales are bfloat16, as the checkpoint has them.
template <class F>
requires std::is_base_of_v<Packed<F::kCoding.bits, F::kBlockElements>, F>
void encode(const float* values, typename F::Block& block, F) {
  constexpr int kBits = F::kCoding.bits;
  constexpr int kHalf = 1 << (kBits - 1);
  const float scale = bf16_to_float(float_to_bf16(fit_scale<F::kBlockElements>(values, -kHalf, kHalf - 1)));
  block.scale_and_zero = bits_of_float(scale) | static_cast<std::uint32_t>(kHalf);
  for (std::uint8_t& byte : block.codes) byte = 0;
  for (int i = 0; i < F::kBlockElements; ++i) {
    add_code<kBits>(block.codes, i, nearest_code(values[i], inverse_of(scale), -kHalf, kHalf - 1) + kHalf);
  }
}

/// The e4m3 code nearest to a value, ties to even; what is over 448 becomes 448.
inline std::uint8_t nearest_e4m3(float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  if (!(size < 448)) return sign | (std::isnan(value) ? 0x7f : 0x7e);
  if (size < 0x1p-6f) return sign | static_cast<std::uint8_t>(nearest(size * 0x1p9f));  // subnormal: units of 2^-9
  const std::uint32_t bits = bits_of_float(size);
  const std::uint32_t rounded = bits + 0x7ffffu + ((bits >> 20) & 1u);
  return sign | static_cast<std::uint8_t>((rounded >> 20) - (120u << 3));
}

/// The smallest exponent under which no value is cut off.
inline void encode(const float* values, MXFP8::Block& block, MXFP8) {
  const float peak = std::fabs(largest<32>(values));
  int exponent = 0;
  std::frexp(peak / 448, &exponent);  // peak / 448 < 2^exponent
  if (peak > 0 && peak / 448 == std::ldexp(1.0f, exponent - 1)) --exponent;
  const int biased = peak == 0 ? 0 : std::clamp(exponent + 127, 0, 254);
  block.exponent = static_cast<std::uint8_t>(biased);
  for (int i = 0; i < 32; ++i) block.codes[i] = nearest_e4m3(std::ldexp(values[i], 127 - biased));
}

}  // namespace pagoda::quant
