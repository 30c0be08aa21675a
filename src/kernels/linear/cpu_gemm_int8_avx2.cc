// Quantised weights times 8- or 16-bit activations (formula in int8_gemm.h), 8 rows in a register.
//
// A lane is a weight row; a vector of codes holds 4 columns of 8 rows. VPMADDUBSW multiplies unsigned codes with 4
// activation codes of one token, broadcast; as many of its 16-bit sums as cannot overflow are added before they are
// widened. Codes of 8 bits are two digits of 4, whose sums meet in 32 bits: so they are added as freely as 4-bit codes.
// A few tokens take the codes from memory and unpack them in registers: bytes moved are the weight's. For more, a row
// tile (16 rows) is unpacked, a panel of columns at a time, into the worker's stack, and all tokens sweep over it.
// Chosen without AVX-512 VNNI. Zen 4, one core, 2026-11-30: one token of Q4_0 and Q4_K reads 30 GB/s from memory, 34
// from L2, where a plain read has 35 and 73; of iq4_xs, the dearest to unpack, 22. 192 tokens: 180 Gop/s, 105 with
// codes of 8 bits, of the 473 that VPMADDUBSW alone would have.
#include <immintrin.h>

#include <algorithm>

#include "kernels/linear/int8_gemm.h"
#include "kernels/linear/int8_kernels.h"
#include "kernels/linear/int8_scales.h"

namespace pagoda::kernels::int8_gemm {
namespace {

using namespace int8_rows16;
using Byte = std::uint8_t;

constexpr std::int64_t kPanelGroups = 16;

/// Up to so many tokens unpack codes in registers: with more, g++ runs out of them.
constexpr int kStreamTokens = 4;

/// What multiplying must know of an encoding.
struct Shape {
  int digits;       ///< of a code: itself, or its lower and its upper 4 bits
  int sum_vectors;  ///< products of so many vectors fit a 16-bit sum: 2 · largest digit · 128 · vectors < 2^15
  int scales;       ///< of a group
  int offset_log2;  ///< Encoding::offset_log2

  constexpr bool operator==(const Shape&) const = default;
};

constexpr Shape shape_of(Encoding e) {
  const bool wide = e.code_bits == 8 || e.table == Table::kIq4;
  const bool five_bits = e.code_bits == 5 || e.table == Table::kE2m1;
  const int sum_vectors = e.code_bits == 6 ? 2 : five_bits ? 4 : 8;
  return {wide ? 2 : 1, std::min(sum_vectors, 8 / scales_a_group(e)), scales_a_group(e), e.offset_log2};
}

__m256i load_vector(const Byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

/// Bit `from` of every byte (or bits from, from + 1 for a mask of two) moved to bit 4.
__m256i upper_bits(__m256i bits, int from, __m256i mask) {
  const __m256i moved = from < 4 ? _mm256_slli_epi16(bits, 4 - from) : _mm256_srli_epi16(bits, from - 4);
  return _mm256_and_si256(moved, mask);
}

/// The digits of a table's entries.
struct DigitTables {
  TableBytes digits[2];
};
constexpr DigitTables digit_tables(Encoding e) {
  DigitTables tables{table_bytes(e), {}};
  for (int i = 0; i < 16 && shape_of(e).digits == 2; ++i) {
    tables.digits[1].bytes[i] = tables.digits[0].bytes[i] >> 4;
    tables.digits[0].bytes[i] &= 15;
  }
  return tables;
}
template <Encoding kEncoding>
constexpr DigitTables kTables = digit_tables(kEncoding);

/// Digit `d` of vector `v` (int8_rows16.h), rows 8·h … 8·h + 7, of the group whose codes lie at `at`.
template <Encoding kEncoding>
[[gnu::always_inline]] inline __m256i unpack_digit(const Byte* at, int v, int h, int d) {
  const __m256i nibble = _mm256_set1_epi8(15);
  if constexpr (kEncoding.code_bits == 8) {
    const __m256i code = load_vector(at + 64 * v + 32 * h);
    return _mm256_and_si256(d == 0 ? code : _mm256_srli_epi16(code, 4), nibble);
  }
  const __m256i both = load_vector(at + 64 * (v % 4) + 32 * h);
  const __m256i code = _mm256_and_si256(v < 4 ? both : _mm256_srli_epi16(both, 4), nibble);
  if constexpr (kEncoding.table != Table::kNone) {
    const auto* table = reinterpret_cast<const __m128i*>(kTables<kEncoding>.digits[d].bytes);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(table)), code);
  }
  if constexpr (kEncoding.code_bits == 5) {
    const __m256i bits = load_vector(at + 256 + 32 * h);
    return _mm256_or_si256(code, upper_bits(bits, v, _mm256_set1_epi8(16)));
  }
  if constexpr (kEncoding.code_bits == 6) {
    const __m256i bits = load_vector(at + 256 + 64 * (v / 4) + 32 * h);
    return _mm256_or_si256(code, upper_bits(bits, 2 * (v % 4), _mm256_set1_epi8(48)));
  }
  return code;
}

/// What unpack_scales needs of this instruction set.
struct Rows {
  /// Of both halves of a row tile.
  struct V {
    __m256 half[2];
  };

  /// The V of fn(0), fn(1).
  template <class Fn>
  [[gnu::always_inline]] static V each(Fn fn) {
    return {{fn(0), fn(1)}};
  }
  static __m128i bytes(const Byte* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); }
  static __m128i shorts(const Byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  static V halves(const Byte* at) {
    return each([=](int h) { return _mm256_cvtph_ps(shorts(at + 16 * h)); });
  }
  static V brains(const Byte* at) {
    return each(
        [=](int h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(shorts(at + 16 * h)), 16)); });
  }
  static V words(const Byte* at) {
    return each([=](int h) { return _mm256_castsi256_ps(load_vector(at + 32 * h)); });
  }
  static V unsigned_bytes(const Byte* at) {
    return each([=](int h) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes(at + 8 * h))); });
  }
  static V signed_bytes(const Byte* at) {
    return each([=](int h) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes(at + 8 * h))); });
  }
  /// A normal number's exponent is e − 1; those of e below 2 are subnormal.
  static V exponents(const Byte* at) {
    return each([=](int h) {
      const __m256i e = _mm256_cvtepu8_epi32(bytes(at + 8 * h));
      const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
      const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
      const __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
      return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, tiny));
    });
  }
  /// An f16 whose exponent is 8 too small, and so 2^-8 of the value, but for NaN.
  static V half_e4m3(const Byte* at) {
    const __m256i codes = _mm256_cvtepu8_epi16(shorts(at));
    const __m256i size = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x7f)), 7);
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)), 8);
    const __m256i nan = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f << 7));
    const __m256i value =
        _mm256_or_si256(_mm256_or_si256(size, sign), _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    const __m128i parts[] = {_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1)};
    return each([&](int h) { return _mm256_mul_ps(_mm256_cvtph_ps(parts[h]), _mm256_set1_ps(128)); });
  }
  static V lowest_bytes(const Byte* at) {
    return each(
        [=](int h) { return _mm256_cvtepi32_ps(_mm256_and_si256(load_vector(at + 32 * h), _mm256_set1_epi32(255))); });
  }
  static V without_lowest(const Byte* at) {
    return each([=](int h) {
      return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_set1_epi32(255), load_vector(at + 32 * h)));
    });
  }
  static V mul(V a, V b) {
    return each([&](int h) { return _mm256_mul_ps(a.half[h], b.half[h]); });
  }
  static V negate(V a) {
    return each([&](int h) { return _mm256_xor_ps(a.half[h], _mm256_set1_ps(-0.0f)); });
  }
};

/// One group of a row tile whose codes are unpacked as they are asked for.
template <Encoding kEncoding>
struct StreamGroup {
  const Byte* codes;
  Scales<Rows> scales;

  [[gnu::always_inline]] __m256i digit(int v, int h, int d) const { return unpack_digit<kEncoding>(codes, v, h, d); }
};

/// The same, unpacked.
template <int kDigits>
struct PanelGroup {
  __m256i digits[8][2][kDigits];
  Scales<Rows> scales;

  __m256i digit(int v, int h, int d) const { return digits[v][h][d]; }
};

__m256i broadcast_4(const std::int8_t* codes) {
  std::int32_t four;
  __builtin_memcpy(&four, codes, 4);
  return _mm256_set1_epi32(four);
}

/// Those of 8 rows.
template <int kTokens>
struct Sums {
  __m256 value[kTokens];
};

/// Adds Σ code·a of kShape.sum_vectors vectors from `first` on, for 8 rows.
template <Shape kShape, int kTokens, int kTerms, class Weights>
[[gnu::always_inline]] inline void add_vectors(const Weights& w, const Record<kTokens, kTerms>& x, int h, int first,
                                               __m256i (*whole)[kTokens]) {
  __m256i sums[kShape.digits][kTerms][kTokens];
#pragma GCC unroll 8
  for (int i = 0; i < kShape.sum_vectors; ++i) {
    const int v = first + i;
#pragma GCC unroll 2
    for (int d = 0; d < kShape.digits; ++d) {
      const __m256i digit = w.digit(v, h, d);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 2
        for (int term = 0; term < kTerms; ++term) {
          __m256i sum = _mm256_maddubs_epi16(digit, broadcast_4(x.codes[term][t] + 4 * v));
          if (i > 0) sum = _mm256_add_epi16(sum, sums[d][term][t]);
          asm("" : "+x"(sum));  // g++ would multiply first and add last, with the products in memory
          sums[d][term][t] = sum;
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int d = 0; d < kShape.digits; ++d) {
    const __m256i weight = _mm256_set1_epi16(d == 0 ? 1 : 16);
#pragma GCC unroll 2
    for (int term = 0; term < kTerms; ++term) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        whole[term][t] = _mm256_add_epi32(whole[term][t], _mm256_madd_epi16(sums[d][term][t], weight));
      }
    }
  }
}

/// What one group adds to the sums of half `h` of a row tile.
template <Shape kShape, int kTokens, int kTerms, class Weights>
[[gnu::always_inline]] inline void add_group(const Weights& w, int h, const Record<kTokens, kTerms>& x,
                                             Sums<kTokens>& sums) {
  constexpr int kVectors = 8 / kShape.scales;
#pragma GCC unroll 2
  for (int part = 0; part < kShape.scales; ++part) {
    __m256i whole[kTerms][kTokens];  // terms: 256·whole[0] + whole[1]
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      if constexpr (kTerms == 2) whole[0][t] = _mm256_setzero_si256();
      const std::int32_t start = kShape.scales == 1 ? x.minus_sum[t] : x.minus_half[part][t];
      whole[kTerms - 1][t] = kShape.offset_log2 < 0
                                 ? _mm256_setzero_si256()
                                 : _mm256_slli_epi32(_mm256_set1_epi32(start), std::max(kShape.offset_log2, 0));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; i += kShape.sum_vectors) {
      add_vectors<kShape, kTokens, kTerms>(w, x, h, kVectors * part + i, whole);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      __m256i dot = whole[0][t];
      if constexpr (kTerms == 2) dot = _mm256_add_epi32(_mm256_slli_epi32(dot, 8), whole[1][t]);
      const __m256 product = _mm256_mul_ps(w.scales.d[part].half[h], _mm256_cvtepi32_ps(dot));
      sums.value[t] = _mm256_fmadd_ps(_mm256_set1_ps(x.scale[t]), product, sums.value[t]);
      if constexpr (kShape.offset_log2 < 0) {
        sums.value[t] = _mm256_fmadd_ps(w.scales.m.half[h], _mm256_set1_ps(x.sum[t]), sums.value[t]);
      }
    }
  }
}

/// Where the sums of a tile of tokens and of half a row tile, from `row` on, lie: in the output itself.
template <int kTokens>
struct OutputTile {
  const Product& product;
  std::int64_t row;
  std::int64_t token;

  float* at(int t) const { return product.out + (token + t) * product.out_stride + row; }
  /// Lanes that are rows of the weight.
  __m256i mask() const {
    const std::int64_t rows = std::clamp<std::int64_t>(product.n - row, 0, 8);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(rows)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  void load(Sums<kTokens>& sums, bool first) const {
    const __m256i lanes = mask();
    for (int t = 0; t < kTokens; ++t) sums.value[t] = first ? _mm256_setzero_ps() : _mm256_maskload_ps(at(t), lanes);
  }
  void store(Sums<kTokens>& sums, bool last) const {
    const __m256i lanes = mask();
    const bool biased = last && product.bias != nullptr;
    const __m256 bias = biased ? _mm256_maskload_ps(product.bias + row, lanes) : _mm256_setzero_ps();
    for (int t = 0; t < kTokens; ++t) {
      if (biased) sums.value[t] = _mm256_add_ps(sums.value[t], bias);
      _mm256_maskstore_ps(at(t), lanes, sums.value[t]);
    }
  }
};

/// kTokens tokens against packed rows, unpacked on the way.
template <Encoding kEncoding, int kTokens, int kTerms>
void stream_tiles(const Product& product, std::int64_t begin, std::int64_t end) {
  const Encoding encoding = encoding_of<kEncoding>(product);
  const std::int64_t chunk_size = chunk_groups(encoding);
  const auto* x = reinterpret_cast<const Record<kTokens, kTerms>*>(product.activations);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const Byte* chunk = product.weight + tile * product.tile_bytes;
    const OutputTile<kTokens> out[2] = {{product, tile * kTileRows, 0}, {product, tile * kTileRows + 8, 0}};
    Sums<kTokens> sums[2];
    for (int h = 0; h < 2; ++h) out[h].load(sums[h], true);
    for (std::int64_t first = 0; first < product.groups; first += chunk_size) {
      const Byte* codes = chunk + chunk_params(encoding, std::min(product.stored_groups - first, chunk_size));
      const std::int64_t count = std::min(product.groups - first, chunk_size);
      for (std::int64_t index = 0; index < count; ++index, codes += code_bytes(kEncoding)) {
        prefetch_next_group<kEncoding>(codes);
        const StreamGroup<kEncoding> w{codes, unpack_scales<kEncoding, Rows>(chunk, index, product.group_log2)};
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) add_group<shape_of(kEncoding)>(w, h, x[first + index], sums[h]);
      }
      chunk = codes;
    }
    for (int h = 0; h < 2; ++h) out[h].store(sums[h], true);
  }
}

/// A panel of a row tile: groups [first, first + count).
struct Place {
  std::int64_t tile;
  std::int64_t first;
  std::int64_t count;
};

template <Encoding kEncoding>
using PanelOf = PanelGroup<shape_of(kEncoding).digits>;

template <Encoding kEncoding>
void unpack_panel(const Product& product, const Place& place, PanelOf<kEncoding>* panel) {
  const Encoding encoding = encoding_of<kEncoding>(product);
  const Byte* bytes = product.weight + place.tile * product.tile_bytes;
  for (std::int64_t group = 0; group < place.count; ++group) {
    const GroupPlace at = group_place(encoding, product.stored_groups, place.first + group);
    panel[group].scales = unpack_scales<kEncoding, Rows>(bytes + at.params, at.index, product.group_log2);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        for (int d = 0; d < shape_of(kEncoding).digits; ++d) {
          panel[group].digits[v][h][d] = unpack_digit<kEncoding>(bytes + at.codes, v, h, d);
        }
      }
    }
  }
}

/// One tile of tokens over one panel.
template <Shape kShape, int kTokens, int kTerms>
[[gnu::noinline]] void sweep(const PanelGroup<kShape.digits>* panel, const Product& product, const Place& place,
                             std::int64_t token) {
  const std::int64_t offset = token * product.groups + place.first * kTokens;
  const auto* x = reinterpret_cast<const Record<kTokens, kTerms>*>(product.activations + offset * token_bytes(kTerms));
  for (int h = 0; h < 2; ++h) {
    const OutputTile<kTokens> out{product, place.tile * kTileRows + 8 * h, token};
    Sums<kTokens> sums;
    out.load(sums, place.first == 0);
    for (std::int64_t group = 0; group < place.count; ++group) add_group<kShape>(panel[group], h, x[group], sums);
    out.store(sums, place.first + place.count == product.groups);
  }
}

/// `sweep` for a number of tokens known at run time.
template <Shape kShape, int kTerms, int kTokens = static_cast<int>(max_tile_tokens(kTerms))>
void sweep_tokens(const PanelGroup<kShape.digits>* panel, const Product& product, const Place& place,
                  std::int64_t token, std::int64_t tokens) {
  if constexpr (kTokens > 0) {
    if (tokens == kTokens) return sweep<kShape, kTokens, kTerms>(panel, product, place, token);
    sweep_tokens<kShape, kTerms, kTokens - 1>(panel, product, place, token, tokens);
  }
}

template <Encoding kEncoding, int kTerms>
void panel_tiles(const Product& product, std::int64_t begin, std::int64_t end) {
  PanelOf<kEncoding> panel[kPanelGroups];
  const std::int64_t panels = (product.groups + kPanelGroups - 1) / kPanelGroups;
  const std::int64_t tiles = token_tiles(product.m, kTerms);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t first = p * product.groups / panels;
      const Place place{tile, first, (p + 1) * product.groups / panels - first};
      unpack_panel<kEncoding>(product, place, panel);
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t token = t * product.m / tiles;
        sweep_tokens<shape_of(kEncoding), kTerms>(panel, product, place, token, (t + 1) * product.m / tiles - token);
      }
    }
  }
}

template <Encoding kEncoding, int kTerms, int kTokens = kStreamTokens>
void stream_tokens(const Product& product, std::int64_t begin, std::int64_t end) {
  if constexpr (kTokens > 0) {
    if (product.m == kTokens) return stream_tiles<kEncoding, kTokens, kTerms>(product, begin, end);
    stream_tokens<kEncoding, kTerms, kTokens - 1>(product, begin, end);
  }
}

struct Kernels {
  template <Encoding kEncoding, int kTerms>
  static void run(const Product& product, std::int64_t begin, std::int64_t end) {
    if (product.m <= kStreamTokens) return stream_tokens<kEncoding, kTerms>(product, begin, end);
    panel_tiles<kEncoding, kTerms>(product, begin, end);
  }
};

}  // namespace

ProductKernel product_avx2(const Encoding& encoding, int terms) { return find_kernel<Kernels>(encoding, terms); }

}  // namespace pagoda::kernels::int8_gemm
