// Quantised weights times 8- or 16-bit activations (formula in int8_gemm.h), 16 rows in a register.
//
// A lane is a weight row; a vector of codes holds 4 columns of 16 rows, and VPDPBUSD multiplies it with 4 activation
// codes of one token, broadcast. Up to one tile of tokens the codes are unpacked in registers as they stream by: bytes
// moved are the weight's. For more tokens, two row tiles (32 rows) are unpacked, a panel of columns at a time, into
// the worker's stack (L1), and all tokens sweep over it in tiles whose sums live in registers.
// Per 32 columns, 16 rows and token: 8 dot products, 1 conversion, 2 to 4 float operations.
// Chosen for every quantised format it knows. Zen 4, one core, 2026-11-30: q4_1, 512 tokens 305 Gop/s of 473 (two terms
// 178); one token 50 GB/s from L2, and from memory 29 to 34 GB/s beside 35 of plain reads.
#include <immintrin.h>

#include <algorithm>

#include "kernels/linear/int8_gemm.h"
#include "kernels/linear/int8_kernels.h"
#include "kernels/linear/int8_scales.h"

namespace pagoda::kernels::int8_gemm {
namespace {

using namespace int8_rows16;
using Byte = std::uint8_t;

constexpr std::int64_t kPanelGroups = 18;

__m512i load_vector(const Byte* at) { return _mm512_loadu_si512(at); }

/// Shifts bits of every byte by `left` (negative: right); bits that cross bytes are masked away by the caller.
template <int kLeft>
__m512i shift(__m512i bits) {
  if constexpr (kLeft > 0) return _mm512_slli_epi16(bits, kLeft);
  if constexpr (kLeft < 0) return _mm512_srli_epi16(bits, -kLeft);
  return bits;
}

/// code | (bits shifted & mask)
template <int kLeft>
__m512i add_bits(__m512i code, __m512i bits, __m512i mask) {
  return _mm512_ternarylogic_epi32(code, shift<kLeft>(bits), mask, 0xf8);
}

template <Encoding kEncoding>
constexpr TableBytes kTable = table_bytes(kEncoding);

/// The eight vectors of codes of one group.
template <Encoding kEncoding>
[[gnu::always_inline]] inline void unpack_codes(const Byte* at, __m512i* v) {
  if constexpr (kEncoding.code_bits == 8) {
    for (int i = 0; i < 8; ++i) v[i] = load_vector(at + 64 * i);
    return;
  }
  const __m512i nibble = _mm512_set1_epi8(15);
  if constexpr (kEncoding.table != Table::kNone) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable<kEncoding>.bytes)));
    for (int i = 0; i < 4; ++i) {
      const __m512i both = load_vector(at + 64 * i);
      v[i] = _mm512_shuffle_epi8(table, _mm512_and_si512(both, nibble));
      v[i + 4] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble));
    }
    return;
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i both = load_vector(at + 64 * i);
    v[i] = _mm512_and_si512(both, nibble);
    v[i + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
  }
  if constexpr (kEncoding.code_bits == 5) {
    const __m512i bits = load_vector(at + 256);
    const __m512i mask = _mm512_set1_epi8(16);
    v[0] = add_bits<4>(v[0], bits, mask);
    v[1] = add_bits<3>(v[1], bits, mask);
    v[2] = add_bits<2>(v[2], bits, mask);
    v[3] = add_bits<1>(v[3], bits, mask);
    v[4] = add_bits<0>(v[4], bits, mask);
    v[5] = add_bits<-1>(v[5], bits, mask);
    v[6] = add_bits<-2>(v[6], bits, mask);
    v[7] = add_bits<-3>(v[7], bits, mask);
  }
  if constexpr (kEncoding.code_bits == 6) {
    const __m512i mask = _mm512_set1_epi8(48);
    for (int half = 0; half < 2; ++half) {
      const __m512i bits = load_vector(at + 256 + 64 * half);
      v[4 * half + 0] = add_bits<4>(v[4 * half + 0], bits, mask);
      v[4 * half + 1] = add_bits<2>(v[4 * half + 1], bits, mask);
      v[4 * half + 2] = add_bits<0>(v[4 * half + 2], bits, mask);
      v[4 * half + 3] = add_bits<-2>(v[4 * half + 3], bits, mask);
    }
  }
}

/// What unpack_scales needs of this instruction set.
struct Rows {
  using V = __m512;

  static __m128i bytes(const Byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  static __m256i shorts(const Byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
  static V halves(const Byte* at) { return _mm512_cvtph_ps(shorts(at)); }
  static V brains(const Byte* at) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(shorts(at)), 16));
  }
  static V words(const Byte* at) { return _mm512_loadu_ps(at); }
  static V unsigned_bytes(const Byte* at) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes(at))); }
  static V signed_bytes(const Byte* at) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes(at))); }
  /// A normal number's exponent is e − 1; those of e below 2 are subnormal.
  static V exponents(const Byte* at) {
    const __m512i e = _mm512_cvtepu8_epi32(bytes(at));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __mmask16 tiny = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, tiny, subnormal));
  }
  /// An f16 whose exponent is 8 too small, and so 2^-8 of the value, but for NaN.
  static V half_e4m3(const Byte* at) {
    const __m256i codes = _mm256_cvtepu8_epi16(bytes(at));
    const __m256i size = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x7f)), 7);
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)), 8);
    const __m256i nan = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f << 7));
    const __m256i value =
        _mm256_or_si256(_mm256_or_si256(size, sign), _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    return _mm512_mul_ps(_mm512_cvtph_ps(value), _mm512_set1_ps(128));
  }
  static V lowest_bytes(const Byte* at) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(load_vector(at), _mm512_set1_epi32(255)));
  }
  static V without_lowest(const Byte* at) {
    return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(255), load_vector(at)));
  }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V negate(V a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
};

__m512i broadcast_4(const std::int8_t* codes) {
  std::int32_t four;
  __builtin_memcpy(&four, codes, 4);
  return _mm512_set1_epi32(four);
}

/// The sums of kRows row tiles and kTokens tokens.
template <int kRows, int kTokens>
struct Sums {
  __m512 value[kRows][kTokens];
};

/// What one group adds. `w.codes(r, v)` is row tile r's vector v, `w.d(r, part)` and `w.m(r)` its parameters.
template <bool kMinimum, int kScales, int kOffsetLog2, int kRows, int kTokens, int kTerms, class Weights>
[[gnu::always_inline]] inline void add_group(const Weights& w, const Record<kTokens, kTerms>& x,
                                             Sums<kRows, kTokens>& sums) {
#pragma GCC unroll 2
  for (int part = 0; part < kScales; ++part) {
    __m512i dot[kTerms][kRows][kTokens];  // terms: 256·dot[0] + dot[1]
    for (int t = 0; t < kTokens; ++t) {
      const std::int32_t* start = kScales == 1 ? x.minus_sum : x.minus_half[part];
      for (int r = 0; r < kRows; ++r) {
        if constexpr (kTerms == 2) dot[0][r][t] = _mm512_setzero_si512();
        dot[kTerms - 1][r][t] = kMinimum ? _mm512_setzero_si512()
                                         : _mm512_slli_epi32(_mm512_set1_epi32(start[t]), kMinimum ? 0 : kOffsetLog2);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8 / kScales; ++i) {
      const int v = part * 4 + i;
      __m512i vector[kRows];
      for (int r = 0; r < kRows; ++r) vector[r] = w.codes(r, v);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        for (int term = 0; term < kTerms; ++term) {
          const __m512i a = broadcast_4(x.codes[term][t] + 4 * v);
          for (int r = 0; r < kRows; ++r) dot[term][r][t] = _mm512_dpbusd_epi32(dot[term][r][t], vector[r], a);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int r = 0; r < kRows; ++r) {
        __m512i whole = dot[0][r][t];
        if constexpr (kTerms == 2) whole = _mm512_add_epi32(_mm512_slli_epi32(whole, 8), dot[1][r][t]);
        const __m512 product = _mm512_mul_ps(w.d(r, part), _mm512_cvtepi32_ps(whole));
        sums.value[r][t] = _mm512_fmadd_ps(_mm512_set1_ps(x.scale[t]), product, sums.value[r][t]);
        if constexpr (kMinimum) {
          sums.value[r][t] = _mm512_fmadd_ps(w.m(r), _mm512_set1_ps(x.sum[t]), sums.value[r][t]);
        }
      }
    }
  }
}

/// The rows of a tile that exist.
__mmask16 rows_mask(std::int64_t n, std::int64_t tile) {
  const std::int64_t rows = n - tile * kTileRows;
  return rows >= kTileRows ? __mmask16(0xffff) : static_cast<__mmask16>((1u << rows) - 1u);
}

/// Where the sums of a tile of tokens and of row tiles from `tile` on lie: in the output itself.
template <int kRows, int kTokens>
struct OutputTile {
  const Product& product;
  std::int64_t tile;
  std::int64_t token;

  float* at(int r, int t) const { return product.out + (token + t) * product.out_stride + (tile + r) * kTileRows; }
  void load(Sums<kRows, kTokens>& sums, bool first) const {
    for (int r = 0; r < kRows; ++r) {
      const __mmask16 mask = rows_mask(product.n, tile + r);
      for (int t = 0; t < kTokens; ++t) {
        sums.value[r][t] = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, at(r, t));
      }
    }
  }
  void store(Sums<kRows, kTokens>& sums, bool last) const {
    for (int r = 0; r < kRows; ++r) {
      const __mmask16 mask = rows_mask(product.n, tile + r);
      const bool biased = last && product.bias != nullptr;
      const __m512 bias =
          biased ? _mm512_maskz_loadu_ps(mask, product.bias + (tile + r) * kTileRows) : _mm512_setzero_ps();
      for (int t = 0; t < kTokens; ++t) {
        if (biased) sums.value[r][t] = _mm512_add_ps(sums.value[r][t], bias);
        _mm512_mask_storeu_ps(at(r, t), mask, sums.value[r][t]);
      }
    }
  }
};

/// One group of a row tile, in registers.
struct StreamGroup {
  __m512i vectors[8];
  Scales<Rows> scales;

  __m512i codes(int /*r*/, int v) const { return vectors[v]; }
  __m512 d(int /*r*/, int part) const { return scales.d[part]; }
  __m512 m(int /*r*/) const { return scales.m; }
};

/// One tile of tokens against packed rows, unpacked on the way. What is read is one stream, which the CPU prefetches
/// better than instructions do: 35 GB/s a core on Zen 4 instead of 25.
template <Encoding kEncoding, int kTokens, int kTerms>
void stream_tiles(const Product& product, std::int64_t begin, std::int64_t end) {
  const Encoding encoding = encoding_of<kEncoding>(product);
  const std::int64_t chunk_size = chunk_groups(encoding);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const Byte* chunk = product.weight + tile * product.tile_bytes;
    const auto* x = reinterpret_cast<const Record<kTokens, kTerms>*>(product.activations);
    const OutputTile<1, kTokens> out{product, tile, 0};
    Sums<1, kTokens> sums;
    out.load(sums, true);
    for (std::int64_t first = 0; first < product.groups; first += chunk_size) {
      const Byte* codes = chunk + chunk_params(encoding, std::min(product.stored_groups - first, chunk_size));
      const std::int64_t count = std::min(product.groups - first, chunk_size);
      for (std::int64_t index = 0; index < count; ++index, codes += code_bytes(kEncoding)) {
        prefetch_next_group<kEncoding>(codes);
        StreamGroup w;
        w.scales = unpack_scales<kEncoding, Rows>(chunk, index, product.group_log2);
        unpack_codes<kEncoding>(codes, w.vectors);
        add_group<has_minimum(kEncoding), scales_a_group(kEncoding), kEncoding.offset_log2>(w, x[first + index], sums);
      }
      chunk = codes;
    }
    out.store(sums, true);
  }
}

/// One group of kRows row tiles, unpacked. Codes are shifted up so that every offset is 128.
template <bool kMinimum, int kScales, int kRows>
struct PanelGroup {
  __m512i vectors[8][kRows];
  __m512 scales[kScales][kRows];
  __m512 minimums[kMinimum ? kRows : 1];

  __m512i codes(int r, int v) const { return vectors[v][r]; }
  __m512 d(int r, int part) const { return scales[part][r]; }
  __m512 m(int r) const { return minimums[r]; }
};

template <Encoding kEncoding, int kRows>
using PanelOf = PanelGroup<has_minimum(kEncoding), scales_a_group(kEncoding), kRows>;

/// Unpacks groups [first, first + count) of kRows row tiles, and prefetches the same of the tiles after them, up to
/// `share`: the tokens' sweep leaves time for it.
template <Encoding kEncoding, int kRows>
void unpack_panel(const Product& product, std::int64_t tile, std::int64_t first, std::int64_t count, const Byte* share,
                  PanelOf<kEncoding, kRows>* panel) {
  __m512i raise = _mm512_setzero_si512();
  if constexpr (!has_minimum(kEncoding))
    raise = _mm512_set1_epi8(static_cast<char>(128 - (1 << kEncoding.offset_log2)));
  const Encoding encoding = encoding_of<kEncoding>(product);
  for (int r = 0; r < kRows; ++r) {
    const Byte* bytes = product.weight + (tile + r) * product.tile_bytes;
    for (std::int64_t group = 0; group < count; ++group) {
      const GroupPlace place = group_place(encoding, product.stored_groups, first + group);
      const Byte* codes = bytes + place.codes;
      const Byte* ahead = codes + kRows * product.tile_bytes;
      if (ahead < share) {
        for (int line = 0; line < kEncoding.code_bits; ++line) _mm_prefetch(ahead + 64 * line, _MM_HINT_T1);
      }
      const Scales<Rows> scales = unpack_scales<kEncoding, Rows>(bytes + place.params, place.index, product.group_log2);
      __m512i v[8];
      unpack_codes<kEncoding>(codes, v);
      for (int i = 0; i < 8; ++i) {
        panel[group].vectors[i][r] = has_minimum(kEncoding) ? v[i] : _mm512_add_epi8(v[i], raise);
      }
      for (int part = 0; part < scales_a_group(kEncoding); ++part) panel[group].scales[part][r] = scales.d[part];
      if constexpr (has_minimum(kEncoding)) panel[group].minimums[r] = scales.m;
    }
  }
}

/// One tile of tokens over one panel.
template <bool kMinimum, int kScales, int kRows, int kTokens, int kTerms>
[[gnu::noinline]] void sweep(const PanelGroup<kMinimum, kScales, kRows>* panel, std::int64_t groups,
                             const Byte* activations, const OutputTile<kRows, kTokens>& out, bool first, bool last) {
  const auto* x = reinterpret_cast<const Record<kTokens, kTerms>*>(activations);
  Sums<kRows, kTokens> sums;
  out.load(sums, first);
  for (std::int64_t group = 0; group < groups; ++group) {
    add_group<kMinimum, kScales, 7>(panel[group], x[group], sums);
  }
  out.store(sums, last);
}

/// `sweep` for a number of tokens known at run time.
template <bool kMinimum, int kScales, int kRows, int kTerms, int kTokens = static_cast<int>(max_tile_tokens(kTerms))>
void sweep_tokens(const PanelGroup<kMinimum, kScales, kRows>* panel, std::int64_t groups, const Product& product,
                  std::int64_t tile, std::int64_t first_group, std::int64_t token, std::int64_t tokens) {
  if constexpr (kTokens > 0) {
    if (tokens != kTokens) {
      return sweep_tokens<kMinimum, kScales, kRows, kTerms, kTokens - 1>(panel, groups, product, tile, first_group,
                                                                         token, tokens);
    }
    const Byte* activations =
        product.activations + (token * product.groups + first_group * tokens) * token_bytes(kTerms);
    sweep<kMinimum, kScales, kRows, kTokens, kTerms>(panel, groups, activations,
                                                     OutputTile<kRows, kTokens>{product, tile, token}, first_group == 0,
                                                     first_group + groups == product.groups);
  }
}

/// All tokens against kRows row tiles.
template <Encoding kEncoding, int kRows, int kTerms>
void panel_tiles(const Product& product, std::int64_t tile, std::int64_t end) {
  const Byte* share = product.weight + end * product.tile_bytes;
  PanelOf<kEncoding, kRows> panel[kPanelGroups];
  const std::int64_t panels = (product.groups + kPanelGroups - 1) / kPanelGroups;
  const std::int64_t tiles = token_tiles(product.m, kTerms);
  for (std::int64_t p = 0; p < panels; ++p) {
    const std::int64_t first = p * product.groups / panels;
    const std::int64_t count = (p + 1) * product.groups / panels - first;
    unpack_panel<kEncoding, kRows>(product, tile, first, count, share, panel);
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t token = t * product.m / tiles;
      const std::int64_t tokens = (t + 1) * product.m / tiles - token;
      sweep_tokens<has_minimum(kEncoding), scales_a_group(kEncoding), kRows, kTerms>(panel, count, product, tile, first,
                                                                                     token, tokens);
    }
  }
}

template <Encoding kEncoding, int kTerms, int kTokens = static_cast<int>(max_tile_tokens(kTerms))>
void stream_tokens(const Product& product, std::int64_t begin, std::int64_t end) {
  if constexpr (kTokens > 0) {
    if (product.m == kTokens) return stream_tiles<kEncoding, kTokens, kTerms>(product, begin, end);
    stream_tokens<kEncoding, kTerms, kTokens - 1>(product, begin, end);
  }
}

struct Kernels {
  template <Encoding kEncoding, int kTerms>
  static void run(const Product& product, std::int64_t begin, std::int64_t end) {
    if (product.m <= max_tile_tokens(kTerms)) return stream_tokens<kEncoding, kTerms>(product, begin, end);
    std::int64_t tile = begin;
    for (; tile + 2 <= end; tile += 2) panel_tiles<kEncoding, 2, kTerms>(product, tile, end);
    for (; tile < end; ++tile) panel_tiles<kEncoding, 1, kTerms>(product, tile, end);
  }
};

}  // namespace

ProductKernel product_avx512(const Encoding& encoding, int terms) { return find_kernel<Kernels>(encoding, terms); }

}  // namespace pagoda::kernels::int8_gemm
