// y[m, n] = Σ_k x[m, k] · w[n, k] for one to four rows of x, w whole numbers of 4, 6 or 8 bits in the layout mma_codes
// (cuda_mma_codes.h), on sm_90: cuda_mma_bulk_codes.cu with fewer instructions a weight. x becomes whole numbers of 15
// bits under one power of two for 64 columns, at most 2^-14 of their largest away from x: less, over the 64, than
// bf16's 2^-9 of each element. Their high and low bytes are two columns of an integer product, to which codes go as
// they lie, one or two instructions for four of them, and whose sums are exact: only a group's sum becomes a float.
// Bytes: codes and scales once; x once a block. Operations: 4,096 a product of 16 rows and 32 columns. Chosen for
// decode of one to four rows on sm_90. Constants: as cuda_bulk_codes.cuh's, AT_ONCE (units of a warp), NORM (0, 1),
// ELEMENT (of x that comes normed: 0 bf16, 1 f16).
#include "kernels/linear/cuda_bulk_codes.cuh"

namespace pagoda::kernels {

using TheCodes = Codes<kCoding>;
constexpr bool kHalf = ELEMENT == 1;
constexpr int kMostTokens = 4;
constexpr bool kFloat = kCoding.table != quant::CodeTable::kInteger;
constexpr int kColumns = kFloat ? 1 : 2;            // of a product, for a token's x of one group
constexpr int kSlots = 8 / ROWS / kColumns;         // groups of a product
constexpr int kLanes = kMostTokens / ROWS;          // of four that have sums of one row of weights: of a token
constexpr int kLaneSlots = kSlots / kLanes;
constexpr int kSumStride = kMostTokens + 1;
constexpr int kSums = WARPS * kSets * 16 * kSumStride;
constexpr int kUnitGroups = mma_bulk_codes_sums(kCoding);
constexpr int kStepColumns = 16;                      // of a thread that prepares x
constexpr int kUnitSteps = 4;                         // threads of a unit
constexpr int kShare = kGroupColumns / kStepColumns;  // of a group
constexpr int kTurnUnits = 32 / kUnitSteps;           // of a warp that prepares x
constexpr int kAhead = NORM ? 1 : 2;                  // turns whose loads are under way together
constexpr bool kOffsets = kCoding.offset != quant::OffsetType::kNone;
constexpr bool kBias = !kOffsets && kCoding.bias != 0;
constexpr int kUnitWords = whole_bulk_codes_unit_words(kCoding);
static_assert(kFloat ? kCoding.table == quant::CodeTable::kE2m1 && !kHalf : TheCodes::kBytes);

struct Shared {
  Ring ring;
  float squares[kMostTokens * WARPS];
};

/// x of a block: bytes by unit, token, part (high, low), quad and step, so that a lane loads a unit's four steps at
/// once; and words by unit and token: of each group the sum of its whole numbers (a float where weights have offsets;
/// times -bias where codes have a bias), and what one of the unit's whole numbers stands for.
struct Input {
  char* bytes;
  std::uint32_t* words;
};

__device__ constexpr int min_of(int a, int b) { return a < b ? a : b; }

/// A number of the thread's own in a register: the compiler would read what it comes from anew wherever it is wanted,
/// and wait for it.
__device__ __forceinline__ int keep(int number) {
  return __shfl_sync(0xffffffffu, number, static_cast<int>(threadIdx.x % 32));
}

/// The warp's `index`th unit: it takes kAtOnce in a row, which share what 256 columns share.
__device__ __forceinline__ int own_unit(int warp, int index) {
  return index / kAtOnce * (WARPS * kAtOnce) + warp * kAtOnce + index % kAtOnce;
}

/// 16 columns of x, and the norm's weights there.
struct Norm {
  float4 w[NORM ? 4 : 1];
};
struct Step {
#if NORM
  float4 x[4];
  Norm norm;
#else
  Vec16 x[2];
#endif
};

__device__ __forceinline__ Norm load_norm(const MmaBulkCodesParams& p, std::int64_t column) {
  Norm norm{};
  if constexpr (NORM) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i * 4 < p.k) norm.w[i] = reinterpret_cast<const float4*>(p.norm + column)[i];
    }
  }
  return norm;
}

__device__ __forceinline__ Step load_step(const MmaBulkCodesParams& p, int token, std::int64_t column) {
  Step s;
#if NORM
  const float* x = static_cast<const float*>(p.input) + token * p.input_stride + column;
#pragma unroll
  for (int i = 0; i < 4; ++i) s.x[i] = column + i * 4 < p.k ? reinterpret_cast<const float4*>(x)[i] : float4{};
#else
  const auto* x = static_cast<const std::uint16_t*>(p.input) + token * p.input_stride + column;
#pragma unroll
  for (int i = 0; i < 2; ++i) s.x[i] = column + i * 8 < p.k ? load_vec16(x + i * 8) : Vec16{};
#endif
  return s;
}

/// Its values, times the norm's weights where the unit norms; adds their squares before that.
__device__ __forceinline__ void widen(const MmaBulkCodesParams& p, const Step& s, float (&v)[16], float& squares) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if NORM
    const float x[4] = {s.x[i].x, s.x[i].y, s.x[i].z, s.x[i].w};
    const float w[4] = {s.norm.w[i].x, s.norm.w[i].y, s.norm.w[i].z, s.norm.w[i].w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      squares = fmaf(x[e], x[e], squares);
      v[i * 4 + e] = x[e] * (w[e] + p.norm_shift);
    }
#else
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const std::uint32_t pair = s.x[i / 2].word[i % 2 * 2 + e / 2];
      v[i * 4 + e] = kHalf ? from_f16(static_cast<std::uint16_t>(pair)) : bf16_low(pair);
      v[i * 4 + e + 1] = kHalf ? from_f16(static_cast<std::uint16_t>(pair >> 16)) : bf16_high(pair);
    }
#endif
  }
}

/// x as bf16: words by unit, token, quad, step and half of the step.
__device__ __forceinline__ void store_floats(const Input& to, int m, int token, int unit, int step, bool inside,
                                             const float (&v)[16]) {
  constexpr float kFactor = power_of_two(TheCodes::kInputExponent);
  if (!inside) return;
  char* const at = to.bytes + unit * whole_bulk_codes_unit_bytes(m) + token * 128 + step * 8;
#pragma unroll
  for (int c = 0; c < 8; c += 2) {
    *reinterpret_cast<uint2*>(at + c * 16) = uint2{pack_bf16(v[c] * kFactor, v[c + 1] * kFactor),
                                                   pack_bf16(v[c + 8] * kFactor, v[c + 9] * kFactor)};
  }
}

/// Makes a step of a unit whole numbers. All lanes of a warp take part; four in a row have a unit.
__device__ __forceinline__ void store_step(const Input& to, int m, int token, int unit, int step, bool inside,
                                           const float (&v)[16]) {
  // As bits, what is not finite is larger than all numbers.
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) most = max(most, __float_as_uint(v[i]) & 0x7fffffffu);
#pragma unroll
  for (int other = 1; other < kUnitSteps; other *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, other));
  // 2^(e + 1) > |x| becomes 2^14; below 2^-100 it is less.
  const std::uint32_t exponent = max(most >> 23, 27u);
  const float by = __uint_as_float((267 - min(exponent, 254u)) << 23);
  const std::uint32_t back = exponent == 255 ? 0x7fc00000u : (exponent - 13) << 23;
  constexpr float kLift = 12582912.0f;  // 1.5 · 2^23, whose lowest bits become the whole number
  std::uint32_t low[16], high[16];
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    low[i] = __float_as_uint(fmaf(v[i], by, kLift));
    high[i] = low[i] + 128;  // the low byte is signed
    sum += low[i];
  }
  sum -= 16u * 0x4b400000u;
#pragma unroll
  for (int other = 1; other < kShare; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
  if (!inside) return;
  char* const at = to.bytes + unit * whole_bulk_codes_unit_bytes(m) + token * 128 + step * 4;
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
    const int c = quad * 2;
    const std::uint32_t highs =
        __byte_perm(__byte_perm(high[c], high[c + 8], 0x0051), __byte_perm(high[c + 1], high[c + 9], 0x0051), 0x5410);
    const std::uint32_t lows =
        __byte_perm(__byte_perm(low[c], low[c + 8], 0x0040), __byte_perm(low[c + 1], low[c + 9], 0x0040), 0x5410);
    *reinterpret_cast<std::uint32_t*>(at + quad * 16) = highs;
    *reinterpret_cast<std::uint32_t*>(at + 64 + quad * 16) = lows;
  }
  std::uint32_t* const words = to.words + (unit * m + token) * kUnitWords;
  if (step % kShare == 0) {
    const auto whole = static_cast<std::int32_t>(sum);
    words[step / kShare] =
        kBias ? static_cast<std::uint32_t>(-kCoding.bias * whole) : __float_as_uint(static_cast<float>(whole));
  }
  if (step == 0) words[kUnitGroups] = back;
}

/// Steps that a lane loads together.
struct Batch {
  Step steps[kAhead];
};

/// The thread's unit of a turn over the warp's units that begins with its `first`th; and its columns there.
__device__ __forceinline__ int turn_unit(int warp, int first) {
  return own_unit(warp, first + static_cast<int>(threadIdx.x % 32) / kUnitSteps);
}
__device__ __forceinline__ std::int64_t turn_column(const Slice& slice, int unit) {
  return std::int64_t{slice.begin + unit} * kUnitColumns + threadIdx.x % kUnitSteps * kStepColumns;
}

/// Norm weights of the warp's first turn.
__device__ __forceinline__ Norm first_norm(const MmaBulkCodesParams& p, const Slice& slice) {
  const int unit = turn_unit(threadIdx.x / 32, 0);
  return unit < slice.count ? load_norm(p, turn_column(slice, unit)) : Norm{};
}

/// Turns of a warp over its units, from its `first`th on. Past the slice there are zeros.
__device__ __forceinline__ Batch load_batch(const MmaBulkCodesParams& p, const Slice& slice, int warp, int token,
                                            int first, const Norm& norm) {
  Batch batch;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int unit = turn_unit(warp, first + i * kTurnUnits);
    batch.steps[i] = unit < slice.count ? load_step(p, token, turn_column(slice, unit)) : Step{};
#if NORM
    batch.steps[i].norm =
        first + i == 0 ? norm : unit < slice.count ? load_norm(p, turn_column(slice, unit)) : Norm{};
#endif
  }
  return batch;
}

/// Each warp makes the columns that it needs itself. The next batch is under way while one is made: behind the weights
/// that the block has under way too, x takes more than a microsecond to come.
__device__ __forceinline__ void prepare_input(const MmaBulkCodesParams& p, const Slice& slice, Shared& s,
                                              const Input& to, const Norm& norm) {
  const int warp = threadIdx.x / 32;
  const int step = threadIdx.x % kUnitSteps;
  float squares = 0;
  int token = 0, first = 0;
  Batch batch = load_batch(p, slice, warp, 0, 0, norm);
  while (token < p.m) {
    int next_token = token, next_first = first + kAhead * kTurnUnits;
    if (own_unit(warp, next_first) >= slice.count) {
      ++next_token;
      next_first = 0;
    }
    Batch next;
    if (next_token < p.m) next = load_batch(p, slice, warp, next_token, next_first, norm);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (own_unit(warp, first + i * kTurnUnits) >= slice.count) break;  // the same for the whole warp
      const int unit = turn_unit(warp, first + i * kTurnUnits);
      float v[16];
      widen(p, batch.steps[i], v, squares);
      if constexpr (kFloat) {
        store_floats(to, p.m, token, unit, step, unit < slice.count, v);
      } else {
        store_step(to, p.m, token, unit, step, unit < slice.count, v);
      }
    }
    if (NORM && next_token != token) {
      squares = warp_sum(squares);
      if (threadIdx.x % 32 == 0) s.squares[token * WARPS + warp] = squares;  // read behind a tile's barrier
      squares = 0;
    }
    token = next_token;
    first = next_first;
    batch = next;
  }
  __syncwarp();
}

__device__ __forceinline__ float norm_factor(const MmaBulkCodesParams& p, const Shared& s, int token) {
  constexpr float kFactor = kFloat ? power_of_two(TheCodes::kExponent - TheCodes::kInputExponent) : 1.0f;
  if constexpr (!NORM) return kHalf ? p.output_factor : kFactor;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS; ++i) sum += s.squares[token * WARPS + i];
  return rsqrtf(sum / static_cast<float>(p.k) + p.epsilon) * kFactor;
}

/// c += a · b of 16 rows and 32 columns.
__device__ __forceinline__ void multiply_bytes(std::int32_t (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                               std::uint32_t a2, std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
/// And of 16 columns.
__device__ __forceinline__ void multiply_bytes(std::int32_t (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                               std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/// And of floats.
__device__ __forceinline__ void multiply_floats(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

using Sums = float[kSets][2];
template <bool kFloats>
struct ProductOf {
  using Type = std::int32_t;
};
template <>
struct ProductOf<true> {
  using Type = float;
};
template <bool kFloats>
using Products = typename ProductOf<kFloats>::Type;
constexpr int kLongChain = kFloat ? 8 : 16;  // steps of a turn

/// What a lane of a warp is, and where it finds its part of x. A product's columns are, for each token and each slot,
/// x of one group of weights and zeros elsewhere (two columns, where x is bytes). As one who brings x a lane has a
/// column, as one who has sums two columns: of one token.
struct Lane {
  const char* bytes;           // of the token, part and quad of the lane's column
  int x_slot;                  // of that column
  std::uint32_t mine[kSlots];  // 1 for it
  const std::uint32_t* words;  // of the token of the lane's sums
  int slot;                    // of these: the first
  int index, row;
  int unit_bytes, unit_words;
};

/// Groups that a turn has in its slots, side by side: of kUnits units in a row.
template <int kUnits>
struct Turns {
  static constexpr int kUnitGroups = kUnitColumns / kGroupColumns;
  static constexpr int kGroups = min_of(kSlots, kUnits * kUnitGroups);
  static constexpr int kCount = kUnits * kUnitGroups / kGroups;
  static constexpr int kSteps = kGroups * kShare;  // of 16 columns
  /// Where the turn's groups begin: a unit, and a group in it.
  static __device__ constexpr int unit(int turn) { return turn * kGroups / kUnitGroups; }
  static __device__ constexpr int group(int turn) { return turn * kGroups % kUnitGroups; }
};

constexpr int kStepWords = kFloat ? 2 : 1;            // of a column's x of 16 columns of weights
constexpr int kTurnWords = kShare * kStepWords;       // and of a group
using TurnScales = Scales<kCoding, kLaneSlots>;

/// What a lane needs of a turn: x of its column's group, and of its sums' groups what x comes with and the scales.
struct Turn {
  std::uint32_t x[kTurnWords];
  std::uint32_t sum;
  float step;
  TurnScales scales[kSets];
};

template <int kUnits>
__device__ __forceinline__ Turn load_turn(int turn, const char* stage, int unit, int of_slice, const Lane& lane) {
  using T = Turns<kUnits>;
  static_assert(T::kUnitGroups % kLaneSlots == 0 && T::kGroups % kLaneSlots == 0);
  Turn t;
  // Where a turn has fewer groups than there are slots, those past the last have zeros for x.
  const int x_slot = min(lane.x_slot, T::kGroups - 1);
  const char* bytes = lane.bytes + (of_slice + unit + T::unit(turn) + x_slot / T::kUnitGroups) * lane.unit_bytes +
                      (T::group(turn) + x_slot % T::kUnitGroups) * kTurnWords * 4;
  if constexpr (kTurnWords == 1) {
    t.x[0] = *reinterpret_cast<const std::uint32_t*>(bytes);
  } else if constexpr (kTurnWords == 2) {
    const uint2 v = *reinterpret_cast<const uint2*>(bytes);
    t.x[0] = v.x;
    t.x[1] = v.y;
  } else {
    const Vec16 v = load_vec16(bytes);
#pragma unroll
    for (int i = 0; i < 4; ++i) t.x[i] = v.word[i];
  }
  const int slot = min(lane.slot, T::kGroups - kLaneSlots);
  const int at = unit + T::unit(turn) + slot / T::kUnitGroups;
  const int group = T::group(turn) + slot % T::kUnitGroups;
  if constexpr (!kFloat) {
    const std::uint32_t* words = lane.words + (of_slice + at) * lane.unit_words;
    t.sum = kOffsets || kBias ? words[group] : 0;
    t.step = __uint_as_float(words[kUnitGroups]);
    if (T::kGroups < kSlots && lane.slot >= T::kGroups) t.sum = 0;
  }
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    // A unit of a wide group finds that group's scales, whichever of its units it is.
    constexpr int kSubUnits = sub_span_columns(kCoding) / kUnitColumns;
    const char* span = stage + set * kSetBytes + kStageCodes + at / kSpanUnits * span_bytes(kCoding);
    t.scales[set] = TurnScales::load(span, at % kSpanUnits / kSubUnits, lane.row, group);
  }
  return t;
}

/// A turn's exact sums, by high and low bytes, to the lane's.
__device__ __forceinline__ void add_turn(float (&sums)[2], const std::int32_t (&c)[4], const TurnScales& scales,
                                         const Turn& t) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float scale = scales.scale(0, h);
    // Of x that is not finite these are any numbers: unsigned ones may overflow.
    auto whole = static_cast<std::uint32_t>(c[2 * h]) * 256 + static_cast<std::uint32_t>(c[2 * h + 1]);
    if constexpr (kBias) whole += t.sum;
    float value = scale * static_cast<float>(static_cast<std::int32_t>(whole));
    if constexpr (kOffsets) {
      const float offset = scales.offset(0, h, scale, static_cast<float>(kCoding.bias));
      value = fmaf(offset, __uint_as_float(t.sum), value);
    }
    sums[h] = fmaf(t.step, value, sums[h]);
  }
}

/// The same of floats: of two groups, or, where a product has one, of that.
__device__ __forceinline__ void add_turn(float (&sums)[2], const float (&c)[4], const TurnScales& scales, const Turn&) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int slot = 0; slot < kLaneSlots; ++slot) sums[h] = fmaf(scales.scale(slot, h), c[2 * h + slot], sums[h]);
  }
}

/// A word of the lane's column: zero in a step of another group. Not a choice, which would be one more instruction of
/// the pipe that decodes.
__device__ __forceinline__ std::uint32_t column_word(const Turn& t, const Lane& lane, int step, int word = 0) {
  const std::uint32_t x = t.x[step % kShare * kStepWords + word];
  return kSlots == 1 ? x : x * lane.mine[step / kShare];
}

/// Step kStep of a turn, and those after it. `c` and `d`: two sums, so that a product need not wait for the one before.
template <int kUnits, int kTurn, int kStep = 0>
__device__ __forceinline__ void multiply_steps(std::int32_t (&c)[4], std::int32_t (&d)[4],
                                               const TheCodes::Unit (&codes)[kUnits], const Turn& t, const Lane& lane) {
  using T = Turns<kUnits>;
  constexpr int kAt = kTurn * T::kSteps + kStep;  // of all units
  std::uint32_t a[4];
  TheCodes::template bytes<kAt % 4>(codes[kAt / 4], a[0], a[1]);
  if constexpr (T::kSteps == 1) {
    multiply_bytes(c, a[0], a[1], column_word(t, lane, kStep));
  } else {
    TheCodes::template bytes<kAt % 4 + 1>(codes[kAt / 4], a[2], a[3]);
    multiply_bytes(c, a[0], a[1], a[2], a[3], column_word(t, lane, kStep), column_word(t, lane, kStep + 1));
    if constexpr (kStep + 2 < T::kSteps) multiply_steps<kUnits, kTurn, kStep + 2>(d, c, codes, t, lane);
  }
}
template <int kUnits, int kTurn, int kStep = 0>
__device__ __forceinline__ void multiply_steps(float (&c)[4], float (&d)[4], const TheCodes::Unit (&codes)[kUnits],
                                               const Turn& t, const Lane& lane) {
  using T = Turns<kUnits>;
  constexpr int kAt = kTurn * T::kSteps + kStep;
  std::uint32_t a[4];
  TheCodes::template decode<kAt % 4>(codes[kAt / 4], a);
  multiply_floats(c, a, column_word(t, lane, kStep), column_word(t, lane, kStep, 1));
  if constexpr (kStep + 1 < T::kSteps) multiply_steps<kUnits, kTurn, kStep + 1>(d, c, codes, t, lane);
}

template <int kUnits, int kTurn>
__device__ __forceinline__ void multiply_turns(Sums& sums, const TheCodes::Unit (&codes)[kSets][kUnits],
                                               const Turn (&turns)[Turns<kUnits>::kCount], const Lane& lane) {
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    Products<kFloat> c[4] = {}, d[4] = {};
    if constexpr (Turns<kUnits>::kSteps >= kLongChain) {
      multiply_steps<kUnits, kTurn>(c, d, codes[set], turns[kTurn], lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) c[i] += d[i];
    } else {
      multiply_steps<kUnits, kTurn>(c, c, codes[set], turns[kTurn], lane);
    }
    add_turn(sums[set], c, turns[kTurn].scales[set], turns[kTurn]);
  }
  if constexpr (kTurn + 1 < Turns<kUnits>::kCount) multiply_turns<kUnits, kTurn + 1>(sums, codes, turns, lane);
}

/// kUnits units in a row: all loads before the first product, so that they are under way together. `unit` counts from
/// the stage's first unit, `of_slice` that one from the slice's first.
template <int kUnits>
__device__ __forceinline__ void multiply(Sums& sums, const char* stage, int unit, int of_slice, const Lane& lane) {
  TheCodes::Unit codes[kSets][kUnits];
  Turn turns[Turns<kUnits>::kCount];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      codes[set][u] = TheCodes::load(stage + set * kSetBytes + (unit + u) * kUnitBytes, lane.index);
    }
  }
#pragma unroll
  for (int t = 0; t < Turns<kUnits>::kCount; ++t) turns[t] = load_turn<kUnits>(t, stage, unit, of_slice, lane);
  multiply_turns<kUnits, 0>(sums, codes, turns, lane);
}

}  // namespace pagoda::kernels

using namespace pagoda;
using namespace pagoda::kernels;

extern "C" __global__ void __launch_bounds__(kThreads + 32, 1)
    whole_bulk_codes(const __grid_constant__ MmaBulkCodesParams p) {
  extern __shared__ __align__(128) char shared[];  // the ring, two sets of the warps' sums, x in bytes, its groups
  __shared__ Shared s;
  char* const ring = shared;
  float* const all_sums = reinterpret_cast<float*>(ring + p.stages * kStageBytes);
  char* const bytes = reinterpret_cast<char*>(all_sums + 2 * kSums);
  const int thread = keep(static_cast<int>(threadIdx.x));
  const int warp = thread / 32;
  const int lane = thread % 32;
  const auto full = static_cast<std::uint32_t>(keep(static_cast<int>(shared_address(s.ring.full))));
  const auto empty = static_cast<std::uint32_t>(keep(static_cast<int>(shared_address(s.ring.empty))));
  if (threadIdx.x < p.stages) {
    init_barrier(&s.ring.full[threadIdx.x], 1);
    init_barrier(&s.ring.empty[threadIdx.x], WARPS);
    publish_barriers();
  }
  __syncthreads();

  std::int64_t tiles = 0;
  for (int i = 0; i < (kGated ? 1 : p.num_weights); ++i) tiles += (p.weights[i].n + 15) / 16;
  const Slice slice = slice_of_block(p);
  if (warp == WARPS) {
    feed(p, slice, tiles, s.ring, ring);
    wait_for_producers();
    return;
  }
  const Norm norm = first_norm(p, slice);  // nobody makes these
  wait_for_producers();
  release_consumers();
  const auto unit_bytes = static_cast<int>(whole_bulk_codes_unit_bytes(p.m));
  const Input input{bytes, reinterpret_cast<std::uint32_t*>(bytes + mma_bulk_codes_slice(p.k, p.splits) * unit_bytes)};
  prepare_input(p, slice, s, input, norm);

  const int column = lane / 4 / kColumns;
  // Columns past the last token's are never looked at: any bytes will do.
  const int part = min(column / kSlots, p.m - 1) * kColumns + lane / 4 % kColumns;
  const int slot = column % kSlots;
  const int token = lane % 4 / kLanes;
  Lane at_x{input.bytes + part * (128 / kColumns) + lane % 4 * (32 / kColumns), slot, {},
            input.words + min(token, p.m - 1) * kUnitWords, lane % 4 % kLanes * kLaneSlots, lane, lane / 4, unit_bytes,
            p.m * kUnitWords};
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    at_x.mine[i] = slot == i;
    asm volatile("" : "+r"(at_x.mine[i]));  // any number, for all the compiler knows
  }
  Cursor at{0, 0};
  int turn = 0;
  for (std::int64_t tile = blockIdx.x / p.splits; tile < tiles; tile += gridDim.x / p.splits, ++turn) {
    const Place place = locate(p, tile);
    const float before = fetch_before(p, place, turn);
    Sums sums = {};
    for (int first = 0; first < slice.count; first += STAGE_UNITS, at.advance(p.stages)) {
      const char* stage = ring + at.slot * kStageBytes;
      wait_barrier(full + at.slot * sizeof(Barrier), at.parity);
#pragma unroll
      for (int i = 0; i < STAGE_UNITS; i += WARPS * kAtOnce) {
        const int mine = i + warp * kAtOnce;
        const int left = slice.count - first - mine;
        if (left >= kAtOnce) {
          multiply<kAtOnce>(sums, stage, mine, first, at_x);
        } else {
          for (int unit = 0; unit < left; ++unit) multiply<1>(sums, stage, mine + unit, first, at_x);
        }
      }
      __syncwarp();
      if (lane == 0) arrive(empty + at.slot * sizeof(Barrier));
    }

    // Two buffers, so that one barrier a tile is enough.
    float* all = all_sums + turn % 2 * kSums;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int other = 1; other < kLanes; other *= 2) {
          sums[set][h] += __shfl_xor_sync(0xffffffffu, sums[set][h], other);
        }
        if (lane % kLanes == 0 && token < p.m) {
          all[((warp * kSets + set) * 16 + lane / 4 + h * 8) * kSumStride + token] = sums[set][h];
        }
      }
    }
    sync_threads<1>(kThreads);
    finish_tile<kSumStride>(p, slice, place, turn, all, before, [&](int t) { return norm_factor(p, s, t); });
  }
}
