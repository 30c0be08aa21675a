// The parameters of a group of kInt8Rows16Layout as floats, one lane a row: written once, compiled for each set of
// instructions, whose file gives `Rows`: a type `V` of 16 floats and these static functions on it:
//   halves, brains, words            f16, bf16 and 32 bits a lane, as float
//   signed_bytes, unsigned_bytes     whole numbers of 8 bits a lane, as float
//   exponents                        2^(e − 128) of bytes e
//   half_e4m3                        half the value of an e4m3 byte, exact
//   lowest_bytes, without_lowest     of 32 bits a lane: the lowest byte as a whole number; the float with it cleared
//   mul, negate
// Everything has internal linkage, so that no object built for one set of instructions offers a symbol to others.
#pragma once

#include <cstdint>

#include "kernels/linear/int8_rows16.h"

namespace pagoda::kernels::int8_gemm {
namespace {

template <class Rows>
struct Scales {
  typename Rows::V d[2];  ///< of the group, or of each half
  typename Rows::V m;     ///< where the encoding has a minimum
};

/// Of group `index` of a chunk whose parameters lie at `at`. Products of an f16 and a scale code of at most 8 bits are
/// exact, as are those of kFloatZero.
template <int8_rows16::Encoding kEncoding, class Rows>
[[gnu::always_inline]] inline Scales<Rows> unpack_scales(const std::uint8_t* at, std::int64_t index, int group_log2) {
  using int8_rows16::Params;
  constexpr Params kParams = kEncoding.params;
  Scales<Rows> scales;
  if constexpr (!is_super(kEncoding)) at += (index >> group_log2) * param_bytes(kEncoding);
  if constexpr (kParams == Params::kScale || kParams == Params::kScaleMinimum) {
    scales.d[0] = Rows::halves(at);
    if constexpr (kParams == Params::kScaleMinimum) scales.m = Rows::halves(at + 32);
  } else if constexpr (kParams == Params::kBf16Pair) {
    scales.d[0] = Rows::brains(at);
    scales.m = Rows::brains(at + 32);
  } else if constexpr (kParams == Params::kFloatZero) {
    scales.d[0] = Rows::without_lowest(at);
    scales.m = Rows::negate(Rows::mul(scales.d[0], Rows::lowest_bytes(at)));
  } else if constexpr (kParams == Params::kExponent) {
    scales.d[0] = Rows::exponents(at);
  } else if constexpr (kParams == Params::kSuper4) {
    const std::uint8_t* codes = at + 64 + 32 * index;
    scales.d[0] = Rows::mul(Rows::halves(at), Rows::unsigned_bytes(codes));
    scales.m = Rows::negate(Rows::mul(Rows::halves(at + 32), Rows::unsigned_bytes(codes + 16)));
  } else if constexpr (kParams == Params::kSuper6) {
    const std::uint8_t* codes = at + 32 + 32 * index;
    const auto d = Rows::halves(at);
    scales.d[0] = Rows::mul(d, Rows::signed_bytes(codes));
    scales.d[1] = Rows::mul(d, Rows::signed_bytes(codes + 16));
  } else if constexpr (kParams == Params::kSuper8) {
    scales.d[0] = Rows::mul(Rows::halves(at), Rows::signed_bytes(at + 32 + 16 * index));
  } else {
    static_assert(kParams == Params::kSuperE4m3);
    const std::uint8_t* codes = at + 64 + 32 * index;
    const auto d = Rows::words(at);
    scales.d[0] = Rows::mul(d, Rows::half_e4m3(codes));
    scales.d[1] = Rows::mul(d, Rows::half_e4m3(codes + 16));
  }
  return scales;
}

}  // namespace
}  // namespace pagoda::kernels::int8_gemm
