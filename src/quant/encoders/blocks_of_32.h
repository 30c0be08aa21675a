// The formats whose blocks are 32 elements with one scale. The headers in formats/ draw their bytes.
#pragma once

#include "quant/encoders/search.h"
#include "quant/formats/iq4_nl.h"
#include "quant/formats/mxfp4.h"
#include "quant/formats/q4_0.h"
#include "quant/formats/q4_1.h"
#include "quant/formats/q5_0.h"
#include "quant/formats/q5_1.h"
#include "quant/formats/q8_0.h"

namespace pagoda::quant {

/// Low nibbles are the first 16 codes, high ones the others; a fifth bit of each lies in `high_bits`, if there is one.
template <class Block>
void store_nibbles(const std::uint8_t (&codes)[32], Block& block) {
  for (int i = 0; i < 16; ++i) block.codes[i] = static_cast<std::uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  if constexpr (requires { block.high_bits; }) {
    for (auto& byte : block.high_bits) byte = 0;
    for (int i = 0; i < 32; ++i) block.high_bits[i / 8] |= static_cast<std::uint8_t>((codes[i] >> 4) << (i % 8));
  }
}

/// Signed codes of `kBits` bits, stored with 2^(kBits - 1) added.
template <int kBits, class Block>
void encode_signed(const float* values, Block& block) {
  constexpr int kHalf = 1 << (kBits - 1);
  block.scale = float_to_f16(fit_scale<32>(values, -kHalf, kHalf - 1));
  const float inverse = inverse_of(f16_to_float(block.scale));
  std::uint8_t codes[32];
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<std::uint8_t>(nearest_code(values[i], inverse, -kHalf, kHalf - 1) + kHalf);
  }
  store_nibbles(codes, block);
}

template <int kBits, class Block>
void encode_line(const float* values, Block& block) {
  constexpr int kMost = (1 << kBits) - 1;
  const Line line = fit_line<32>(values, kMost, false);
  block.scale = float_to_f16(line.scale);
  block.minimum = float_to_f16(line.offset);
  const float inverse = inverse_of(f16_to_float(block.scale));
  const float offset = f16_to_float(block.minimum);
  std::uint8_t codes[32];
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<std::uint8_t>(nearest_code(values[i] - offset, inverse, 0, kMost));
  }
  store_nibbles(codes, block);
}

inline void encode(const float* values, Q4_0::Block& block, Q4_0) { encode_signed<4>(values, block); }
inline void encode(const float* values, Q5_0::Block& block, Q5_0) { encode_signed<5>(values, block); }
inline void encode(const float* values, Q4_1::Block& block, Q4_1) { encode_line<4>(values, block); }
inline void encode(const float* values, Q5_1::Block& block, Q5_1) { encode_line<5>(values, block); }

/// With 8 bits nothing is gained by looking for a scale: the largest value becomes 127.
inline void encode(const float* values, Q8_0::Block& block, Q8_0) {
  block.scale = float_to_f16(std::fabs(largest<32>(values)) / 127);
  const float inverse = inverse_of(f16_to_float(block.scale));
  for (int i = 0; i < 32; ++i) block.codes[i] = static_cast<std::int8_t>(nearest_code(values[i], inverse, -128, 127));
}

inline const CodeBook<16>& iq4_code_book() {
  static const CodeBook<16> kBook = [] {
    CodeBook<16> book;
    for (int code = 0; code < 16; ++code)
      book.values[static_cast<std::size_t>(code)] = static_cast<float>(iq4_value(code));
    return book;
  }();
  return kBook;
}

inline void encode(const float* values, IQ4_NL::Block& block, IQ4_NL) {
  const CodeBook<16>& book = iq4_code_book();
  block.scale = float_to_f16(book.fit_scale<32>(values));
  const float inverse = inverse_of(f16_to_float(block.scale));
  std::uint8_t codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(book.nearest_code(values[i] * inverse));
  store_nibbles(codes, block);
}

/// The e2m1 code nearest to a value; ties go to the even code, what is over 6 becomes 6.
inline int nearest_fp4(float value) {
  const float size = std::fabs(value);
  int code = 0;  // a tie stays below an odd code and rises to an even one
  code += size > 0.25f ? 1 : 0;
  code += size >= 0.75f ? 1 : 0;
  code += size > 1.25f ? 1 : 0;
  code += size >= 1.75f ? 1 : 0;
  code += size > 2.5f ? 1 : 0;
  code += size >= 3.5f ? 1 : 0;
  code += size > 5.0f ? 1 : 0;
  return value < 0 && code != 0 ? code | 8 : code;
}

/// The exponent (+127) of a block of 32 e2m1 codes: the one with the least squared error of the two around the largest
/// value over 6.
inline int fit_mx_exponent(const float* values) {
  const float peak = std::fabs(largest<32>(values));
  if (peak == 0) return 0;
  int exponent = 0;
  std::frexp(peak, &exponent);  // peak is in [½, 1)·2^exponent
  int best = 0;
  float best_error = HUGE_VALF;
  for (const int candidate : {exponent - 3, exponent - 2}) {
    const int biased = std::clamp(candidate + 127, 0, 254);
    const float scale = std::ldexp(1.0f, biased - 127);
    const float inverse = std::ldexp(1.0f, 127 - biased);
    float error = 0;
    for (int i = 0; i < 32; ++i) {
      const float value = fp4_e2m1_to_float(static_cast<std::uint8_t>(nearest_fp4(values[i] * inverse)));
      const float difference = (value * scale - values[i]) / peak;
      error += difference * difference;
    }
    if (error < best_error) {
      best_error = error;
      best = biased;
    }
  }
  return best;
}

inline void encode(const float* values, MXFP4::Block& block, MXFP4) {
  block.exponent = static_cast<std::uint8_t>(fit_mx_exponent(values));
  const float inverse = std::ldexp(1.0f, 127 - static_cast<int>(block.exponent));
  std::uint8_t codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(nearest_fp4(values[i] * inverse));
  store_nibbles(codes, block);
}

}  // namespace pagoda::quant
