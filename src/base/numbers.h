// Number types that C++ lacks, as their bit patterns: binary16, bfloat16, the 8-bit and 4-bit floats of OCP MX.
// Widening is exact; narrowing rounds to nearest, ties to even. Shared with kernel sources.
// Sources: IEEE 754-2019; OCP 8-bit Floating Point 1.0; OCP Microscaling Formats 1.0.
#pragma once

#include "base/shared.h"

namespace pagoda {

// NVRTC has neither <bit> nor __builtin_memcpy.
PAGODA_SHARED float float_of_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

PAGODA_SHARED std::uint32_t bits_of_float(float value) { return __builtin_bit_cast(std::uint32_t, value); }

PAGODA_SHARED float bf16_to_float(std::uint16_t bits) { return float_of_bits(static_cast<std::uint32_t>(bits) << 16); }

/// NaN stays a NaN (quiet); overflow becomes infinity.
PAGODA_SHARED std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

PAGODA_SHARED float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1fu) return float_of_bits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return float_of_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal: mantissa counts units of 2^-24
  return float_of_bits(sign | bits_of_float(magnitude));
}

/// NaN stays a NaN (quiet); values from 65520 on become infinity.
PAGODA_SHARED std::uint16_t float_to_f16(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below the smallest normal: adding 0.5 puts the unit of 2^-24 at the float's last bit, so the adder rounds for us.
    const float shifted = float_of_bits(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (bits_of_float(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

/// e4m3 without infinities: 0x7f and 0xff are NaN, the largest value is 448.
PAGODA_SHARED float fp8_e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xfu;
  const std::uint32_t mantissa = bits & 7u;
  if (exponent == 15u && mantissa == 7u) return float_of_bits(sign | 0x7fc00000u);
  if (exponent == 0) return float_of_bits(sign | bits_of_float(static_cast<float>(mantissa) * 0x1p-9f));
  return float_of_bits(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

PAGODA_SHARED float fp8_e5m2_to_float(std::uint8_t bits) {
  return f16_to_float(static_cast<std::uint16_t>(static_cast<std::uint16_t>(bits) << 8));
}

/// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with the sign in bit 3.
PAGODA_SHARED float fp4_e2m1_to_float(std::uint8_t bits) {
  const std::uint32_t exponent = (bits >> 1) & 3u;
  const std::uint32_t mantissa = bits & 1u;
  const float magnitude =
      exponent == 0 ? 0.5f * static_cast<float>(mantissa) : float_of_bits(((exponent + 126u) << 23) | (mantissa << 22));
  return (bits & 8u) != 0 ? -magnitude : magnitude;
}

/// e8m0, a scale: 2^(bits - 127); 255 is NaN.
PAGODA_SHARED float e8m0_to_float(std::uint8_t bits) {
  if (bits == 255u) return float_of_bits(0x7fc00000u);
  if (bits == 0) return float_of_bits(0x00400000u);  // 2^-127 is subnormal
  return float_of_bits(static_cast<std::uint32_t>(bits) << 23);
}

}  // namespace pagoda
