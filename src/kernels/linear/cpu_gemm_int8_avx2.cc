// Quantised weights times 8- or 16-bit activations (formula in int8_gemm.h), 8 rows in a register.
//
// A lane is a weight row. A row tile (16 rows) is unpacked, a panel of columns at a time, into the worker's stack, and
// all tokens sweep over it. VPMADDUBSW multiplies unsigned codes with activation codes, broadcast 4 columns at a time;
// as many of its 16-bit sums as cannot overflow are added before they are widened. 8-bit codes are widened first.
// Chosen without AVX-512 VNNI. Zen 4, one core, 2026-11-30: q4_k, 512 tokens 115 Gop/s, one token 19 GB/s: unpacking
// first and then multiplying, not memory, is the limit.
#include <immintrin.h>

#include <iterator>
#include <utility>

#include "kernels/linear/int8_gemm.h"
#include "kernels/linear/int8_scales.h"

namespace pagoda::kernels::int8_gemm {
namespace {

using namespace int8_rows16;
using Byte = std::uint8_t;

constexpr std::int64_t kPanelGroups = 16;

/// Bits of an unpacked code: a table's entries are wider than their places in it.
constexpr int unpacked_bits(Encoding e) {
  return e.table == Table::kIq4 ? 8 : e.table == Table::kE2m1 ? 5 : e.code_bits;
}
constexpr bool is_signed(Encoding e) { return unpacked_bits(e) == 8; }

/// Products of a vector that fit a 16-bit sum: 2 · max code · 128 · vectors < 2^15. 8-bit codes: none do.
constexpr int vectors_a_sum(Encoding e) { return unpacked_bits(e) == 4 ? 8 : unpacked_bits(e) == 5 ? 4 : 2; }

__m256i load_vector(const Byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

/// Bit `from` of every byte (or bits from, from + 1 for a mask of two) moved to bit 4.
__m256i upper_bits(__m256i bits, int from, __m256i mask) {
  const __m256i moved = from < 4 ? _mm256_slli_epi16(bits, 4 - from) : _mm256_srli_epi16(bits, from - 4);
  return _mm256_and_si256(moved, mask);
}

/// A table's entries, signed if they are wide.
template <Encoding kEncoding>
constexpr TableBytes kTable = table_bytes(kEncoding, is_signed(kEncoding) ? 128 : 0);

template <Encoding kEncoding>
void unpack_codes(const Byte* at, __m256i* codes) {
  if constexpr (kEncoding.code_bits == 8) {
    for (int i = 0; i < 16; ++i) {
      codes[i] = _mm256_xor_si256(load_vector(at + 32 * i), _mm256_set1_epi8(static_cast<char>(0x80)));
    }
    return;
  }
  const __m256i nibble = _mm256_set1_epi8(15);
  if constexpr (kEncoding.table != Table::kNone) {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable<kEncoding>.bytes)));
    for (int i = 0; i < 8; ++i) {
      const __m256i both = load_vector(at + 32 * i);
      codes[i] = _mm256_shuffle_epi8(table, _mm256_and_si256(both, nibble));
      codes[i + 8] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble));
    }
    return;
  }
  for (int i = 0; i < 8; ++i) {
    const __m256i both = load_vector(at + 32 * i);
    codes[i] = _mm256_and_si256(both, nibble);
    codes[i + 8] = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
  }
  for (int h = 0; h < 2; ++h) {
    for (int v = 0; v < 8; ++v) {
      if constexpr (kEncoding.code_bits == 5) {
        const __m256i bits = load_vector(at + 256 + 32 * h);
        codes[2 * v + h] = _mm256_or_si256(codes[2 * v + h], upper_bits(bits, v, _mm256_set1_epi8(16)));
      }
      if constexpr (kEncoding.code_bits == 6) {
        const __m256i bits = load_vector(at + 256 + 64 * (v / 4) + 32 * h);
        codes[2 * v + h] = _mm256_or_si256(codes[2 * v + h], upper_bits(bits, 2 * (v % 4), _mm256_set1_epi8(48)));
      }
    }
  }
}

/// What unpack_scales needs of this instruction set.
struct Rows {
  using V = __m256;

  static __m128i bytes(const Byte* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); }
  static __m128i shorts(const Byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  static V halves(const Byte* at) { return _mm256_cvtph_ps(shorts(at)); }
  static V brains(const Byte* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(shorts(at)), 16));
  }
  static V words(const Byte* at) { return _mm256_castsi256_ps(load_vector(at)); }
  static V unsigned_bytes(const Byte* at) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes(at))); }
  static V signed_bytes(const Byte* at) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes(at))); }
  /// A normal number's exponent is e − 1; those of e below 2 are subnormal.
  static V exponents(const Byte* at) {
    const __m256i e = _mm256_cvtepu8_epi32(bytes(at));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, tiny));
  }
  /// An f16 whose exponent is 8 too small, and so 2^-8 of the value, but for NaN.
  static V half_e4m3(const Byte* at) {
    const __m128i codes = _mm_cvtepu8_epi16(bytes(at));
    const __m128i size = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x7f)), 7);
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x80)), 8);
    const __m128i nan = _mm_cmpeq_epi16(size, _mm_set1_epi16(0x7f << 7));
    const __m128i value = _mm_or_si128(_mm_or_si128(size, sign), _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(value), _mm256_set1_ps(128));
  }
  static V lowest_bytes(const Byte* at) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(load_vector(at), _mm256_set1_epi32(255)));
  }
  static V without_lowest(const Byte* at) {
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_set1_epi32(255), load_vector(at)));
  }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  static V negate(V a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
};

/// One group of a row tile, unpacked: vector v is codes[2·v] (rows 0 … 7) and codes[2·v + 1]. 8-bit codes are signed.
struct PanelGroup {
  __m256i codes[16];
  Scales<Rows> scales[2];
};

__m256i broadcast_4(const std::int8_t* codes) {
  std::int32_t four;
  __builtin_memcpy(&four, codes, 4);
  return _mm256_set1_epi32(four);
}

/// Σ code·a over kVectors vectors from `first` on, for 8 rows.
template <Encoding kEncoding, int kVectors>
__m256i dot(const PanelGroup& w, int h, int first, const std::int8_t* a) {
  __m256i whole = _mm256_setzero_si256();
  if constexpr (is_signed(kEncoding)) {
    for (int v = first; v < first + kVectors; ++v) {
      const __m256i code = w.codes[2 * v + h];
      const __m256i four = broadcast_4(a + 4 * v);
      const __m256i even = _mm256_madd_epi16(_mm256_srai_epi16(_mm256_slli_epi16(code, 8), 8),
                                             _mm256_srai_epi16(_mm256_slli_epi16(four, 8), 8));
      const __m256i odd = _mm256_madd_epi16(_mm256_srai_epi16(code, 8), _mm256_srai_epi16(four, 8));
      whole = _mm256_add_epi32(whole, _mm256_add_epi32(even, odd));
    }
  } else {
    constexpr int kSum = vectors_a_sum(kEncoding) < kVectors ? vectors_a_sum(kEncoding) : kVectors;
    for (int v = first; v < first + kVectors; v += kSum) {
      __m256i sum = _mm256_maddubs_epi16(w.codes[2 * v + h], broadcast_4(a + 4 * v));
      for (int i = v + 1; i < v + kSum; ++i) {
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w.codes[2 * i + h], broadcast_4(a + 4 * i)));
      }
      whole = _mm256_add_epi32(whole, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
    }
  }
  return whole;
}

/// What one group adds to the sums of 16 rows and kTokens tokens.
template <Encoding kEncoding, int kTokens, int kTerms>
void add_group(const PanelGroup& w, const Record<kTokens, kTerms>& x, __m256 (*sums)[2]) {
  constexpr int kScales = scales_a_group(kEncoding);
  for (int part = 0; part < kScales; ++part) {
    for (int t = 0; t < kTokens; ++t) {
      const std::int32_t start = kScales == 1 ? x.minus_sum[t] : x.minus_half[part][t];
      for (int h = 0; h < 2; ++h) {
        __m256i whole = dot<kEncoding, 8 / kScales>(w, h, 4 * part, x.codes[kTerms - 1][t]);
        if constexpr (kTerms == 2) {
          const __m256i upper = dot<kEncoding, 8 / kScales>(w, h, 4 * part, x.codes[0][t]);
          whole = _mm256_add_epi32(whole, _mm256_slli_epi32(upper, 8));
        }
        if constexpr (kEncoding.offset_log2 >= 0 && !is_signed(kEncoding)) {
          whole = _mm256_add_epi32(whole, _mm256_slli_epi32(_mm256_set1_epi32(start), kEncoding.offset_log2));
        }
        if constexpr (has_minimum(kEncoding) && is_signed(kEncoding)) {  // 128 was taken off
          whole = _mm256_sub_epi32(whole, _mm256_slli_epi32(_mm256_set1_epi32(start), 7));
        }
        const __m256 product = _mm256_mul_ps(w.scales[h].d[part], _mm256_cvtepi32_ps(whole));
        sums[t][h] = _mm256_fmadd_ps(_mm256_set1_ps(x.scale[t]), product, sums[t][h]);
        if constexpr (has_minimum(kEncoding)) {
          sums[t][h] = _mm256_fmadd_ps(w.scales[h].m, _mm256_set1_ps(x.sum[t]), sums[t][h]);
        }
      }
    }
  }
}

/// Lanes of half `h` of a tile that are rows of the weight.
__m256i rows_mask(std::int64_t n, std::int64_t tile, int h) {
  const std::int64_t rows = n - tile * kTileRows - 8 * h;
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(rows > 8 ? 8 : static_cast<int>(rows)), lane);
}

/// A panel of a row tile: groups [first, first + count).
struct Place {
  std::int64_t tile;
  std::int64_t first;
  std::int64_t count;
};

/// One tile of tokens over one panel; sums between panels lie in the output.
template <Encoding kEncoding, int kTokens, int kTerms>
void sweep(const PanelGroup* panel, const Product& product, const Place& place, std::int64_t token) {
  const std::int64_t offset = token * product.groups + place.first * kTokens;
  const auto* x = reinterpret_cast<const Record<kTokens, kTerms>*>(product.activations + offset * token_bytes(kTerms));
  float* out = product.out + token * product.out_stride + place.tile * kTileRows;
  const __m256i mask[2] = {rows_mask(product.n, place.tile, 0), rows_mask(product.n, place.tile, 1)};
  __m256 sums[kTokens][2];
  for (int t = 0; t < kTokens; ++t) {
    for (int h = 0; h < 2; ++h) {
      const float* at = out + t * product.out_stride + 8 * h;
      sums[t][h] = place.first == 0 ? _mm256_setzero_ps() : _mm256_maskload_ps(at, mask[h]);
    }
  }
  for (std::int64_t group = 0; group < place.count; ++group) add_group<kEncoding>(panel[group], x[group], sums);
  const bool biased = place.first + place.count == product.groups && product.bias != nullptr;
  for (int h = 0; h < 2; ++h) {
    const __m256 bias =
        biased ? _mm256_maskload_ps(product.bias + place.tile * kTileRows + 8 * h, mask[h]) : _mm256_setzero_ps();
    for (int t = 0; t < kTokens; ++t) {
      if (biased) sums[t][h] = _mm256_add_ps(sums[t][h], bias);
      _mm256_maskstore_ps(out + t * product.out_stride + 8 * h, mask[h], sums[t][h]);
    }
  }
}

/// `sweep` for a number of tokens known at run time.
template <Encoding kEncoding, int kTerms, int kTokens = static_cast<int>(max_tile_tokens(kTerms))>
void sweep_tokens(const PanelGroup* panel, const Product& product, const Place& place, std::int64_t token,
                  std::int64_t tokens) {
  if constexpr (kTokens > 0) {
    if (tokens == kTokens) return sweep<kEncoding, kTokens, kTerms>(panel, product, place, token);
    sweep_tokens<kEncoding, kTerms, kTokens - 1>(panel, product, place, token, tokens);
  }
}

template <Encoding kEncoding>
void unpack_panel(const Product& product, const Place& place, PanelGroup* panel) {
  Encoding encoding = kEncoding;
  encoding.group_log2 = product.group_log2;
  const Byte* bytes = product.weight + place.tile * product.tile_bytes;
  for (std::int64_t group = 0; group < place.count; ++group) {
    const GroupPlace at = group_place(encoding, product.stored_groups, place.first + group);
    for (int h = 0; h < 2; ++h) {
      panel[group].scales[h] = unpack_scales<kEncoding, Rows>(bytes + at.params, at.index, product.group_log2, 8 * h);
    }
    unpack_codes<kEncoding>(bytes + at.codes, panel[group].codes);
  }
}

template <Encoding kEncoding, int kTerms>
void run(const Product& product, std::int64_t begin, std::int64_t end) {
  PanelGroup panel[kPanelGroups];
  const std::int64_t panels = (product.groups + kPanelGroups - 1) / kPanelGroups;
  const std::int64_t tiles = token_tiles(product.m, kTerms);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t first = p * product.groups / panels;
      const Place place{tile, first, (p + 1) * product.groups / panels - first};
      unpack_panel<kEncoding>(product, place, panel);
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t token = t * product.m / tiles;
        sweep_tokens<kEncoding, kTerms>(panel, product, place, token, (t + 1) * product.m / tiles - token);
      }
    }
  }
}

struct Entry {
  Encoding encoding;
  ProductKernel kernels[2];
};

struct Entries {
  Entry all[std::size(kKinds)];
};

template <std::size_t... kIndex>
constexpr Entries make_entries(std::index_sequence<kIndex...>) {
  return {{{kKinds[kIndex], {&run<kKinds[kIndex], 1>, &run<kKinds[kIndex], 2>}}...}};
}

constexpr Entries kEntries = make_entries(std::make_index_sequence<std::size(kKinds)>());

}  // namespace

ProductKernel product_avx2(const Encoding& encoding, int terms) {
  for (const Entry& e : kEntries.all) {
    if (e.encoding == encoding.kind()) return e.kernels[terms - 1];
  }
  return nullptr;
}

}  // namespace pagoda::kernels::int8_gemm
