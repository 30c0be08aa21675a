// y[m, n] = Σ_k x[m, k] · w[n, k] for one to four rows of x, w whole numbers of 4, 6 or 8 bits or e2m1 in the layout
// mma_codes (cuda_mma_codes.h), on sm_90: cuda_mma_bulk_codes.cu with fewer instructions a weight. Whole numbers go as
// they lie, one or two instructions for four of them, to integer products with the two bytes of x's whole numbers,
// whose sums are exact; e2m1 becomes bf16. A product's eight columns are rows of x and, where ROWS are few, groups of
// weights side by side: so each lane scales sums of its own groups, and not all lanes those of all. Bytes: codes and
// scales once; x once a block. Operations: 4,096 a product of 16 rows and 32 columns. Chosen for decode of one to four
// rows on sm_90. Constants: as cuda_bulk_codes.cuh's, AT_ONCE (units of a warp), NORM (0, 1), ELEMENT (of x that comes
// normed: 0 bf16, 1 f16), ROWS (of x, at most: 1, 2, 4).
#include "kernels/linear/cuda_whole_input.cuh"

namespace pagoda::kernels {

constexpr int kColumns = kFloat ? 1 : 2;     // of a product, for x of one row and one group
constexpr int kSlots = 8 / ROWS / kColumns;  // groups of a product
constexpr int kLanes = kMostTokens / ROWS;   // of the four that have sums of one row of weights: those of one of x
constexpr int kLaneSlots = kSlots / kLanes;
constexpr int kSumStride = kMostTokens + 1;
constexpr int kSums = WARPS * kSets * 16 * kSumStride;

__device__ constexpr int min_of(int a, int b) { return a < b ? a : b; }

/// A number of the thread's own in a register: the compiler would read what it comes from anew wherever it is wanted,
/// and wait for it.
__device__ __forceinline__ int keep(int number) {
  return __shfl_sync(0xffffffffu, number, static_cast<int>(threadIdx.x % 32));
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

/// What a product's sums are: exact ones of bytes.
template <bool kFloats>
struct ProductOf {
  using Type = std::int32_t;
};
template <>
struct ProductOf<true> {
  using Type = float;
};
using Product = ProductOf<kFloat>::Type;
constexpr int kLongChain = 16;  // steps of a turn from which on it has two sums

/// What 256 columns share beside scales of their own is multiplied with the sums of all their turns.
constexpr bool kLateSuper = kFloat && kCoding.super == quant::SuperScale::kF32;

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
  static constexpr int kGroups = min_of(kSlots, kUnits* kUnitGroups);
  static constexpr int kCount = kUnits * kUnitGroups / kGroups;
  static constexpr int kSteps = kGroups * kShare;  // of 16 columns
  /// Where the turn's groups begin: a unit, and a group in it.
  static __device__ constexpr int unit(int turn) { return turn * kGroups / kUnitGroups; }
  static __device__ constexpr int group(int turn) { return turn * kGroups % kUnitGroups; }
};

constexpr int kStepWords = kFloat ? 2 : 1;       // of a column's x of 16 columns of weights
constexpr int kTurnWords = kShare * kStepWords;  // and of a group
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
  const char* bytes = lane.bytes + (of_slice + unit + T::unit(turn)) * lane.unit_bytes + T::group(turn) * kTurnWords * 4 +
                      x_slot / T::kUnitGroups * lane.unit_bytes + x_slot % T::kUnitGroups * kTurnWords * 4;
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
  const int own = slot / T::kUnitGroups;  // the lane's unit of the turn
  const int at = unit + T::unit(turn) + own;
  const int group = T::group(turn) + slot % T::kUnitGroups;
  if constexpr (!kFloat) {
    const std::uint32_t* words = lane.words + (of_slice + at) * lane.unit_words;
    t.sum = kOffsets || kBias ? words[group] : 0;
    t.step = __uint_as_float(words[kUnitGroups]);
    if (T::kGroups < kSlots && lane.slot >= T::kGroups) t.sum = 0;
  }
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    const char* scales = stage + set * kSetBytes + kStageCodes;
    // A unit of a wide group finds that group's scales, whichever of its units it is.
    constexpr int kSubUnits = sub_span_columns(kCoding) / kUnitColumns;
    if constexpr (kUnits % kSpanUnits == 0 && T::kGroups <= T::kUnitGroups * kSpanUnits) {
      // A turn's units are of one span, and `unit` begins one: what differs by lane is the same in all turns.
      const char* span = scales + (unit + T::unit(turn)) / kSpanUnits * span_bytes(kCoding);
      const int sub = T::unit(turn) % kSpanUnits / kSubUnits + own / kSubUnits;
      t.scales[set] = TurnScales::load(span, sub, lane.row, group);
    } else {
      t.scales[set] =
          TurnScales::load(scales + at / kSpanUnits * span_bytes(kCoding), at % kSpanUnits / kSubUnits, lane.row, group);
    }
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

/// The same of floats: of two groups.
__device__ __forceinline__ void add_turn(float (&sums)[2], const float (&c)[4], const TurnScales& scales, const Turn&) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int slot = 0; slot < kLaneSlots; ++slot) {
      if constexpr (kLateSuper) {
        sums[h] = fmaf(scales.group_scale(slot, h), c[2 * h + slot], sums[h]);
      } else {
        sums[h] = fmaf(scales.scale(slot, h), c[2 * h + slot], sums[h]);
      }
    }
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

/// `span`: sums of the turns since the last that ended a span, where those wait for what the span shares.
template <int kUnits, int kTurn>
__device__ __forceinline__ void multiply_turns(Sums& sums, Sums& span, const TheCodes::Unit (&codes)[kSets][kUnits],
                                               const Turn (&turns)[Turns<kUnits>::kCount], const Lane& lane) {
  using T = Turns<kUnits>;
  constexpr bool kLast = kTurn + 1 == T::kCount;
  constexpr bool kEndsSpan = kLast || T::unit(kTurn + 1) / kSpanUnits != T::unit(kTurn) / kSpanUnits;
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    Product c[4] = {}, d[4] = {};
    if constexpr (T::kSteps >= kLongChain) {
      multiply_steps<kUnits, kTurn>(c, d, codes[set], turns[kTurn], lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) c[i] += d[i];
    } else {
      multiply_steps<kUnits, kTurn>(c, c, codes[set], turns[kTurn], lane);
    }
    const TurnScales& scales = turns[kTurn].scales[set];
    add_turn(kLateSuper ? span[set] : sums[set], c, scales, turns[kTurn]);
    if constexpr (kLateSuper && kEndsSpan) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        sums[set][h] = fmaf(scales.factor[h], span[set][h], sums[set][h]);
        span[set][h] = 0;
      }
    }
  }
  if constexpr (!kLast) multiply_turns<kUnits, kTurn + 1>(sums, span, codes, turns, lane);
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
  Sums span = {};
  multiply_turns<kUnits, 0>(sums, span, codes, turns, lane);
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
  // The same barriers as `s` has, by an address in a register.
  Ring& barriers = *static_cast<Ring*>(
      __cvta_shared_to_generic(static_cast<std::uint32_t>(keep(static_cast<int>(shared_address(&s.ring))))));
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
  const int m = ROWS <= 2 ? ROWS : p.m;
  const auto unit_bytes = static_cast<int>(whole_bulk_codes_unit_bytes(m));
  const Input input{bytes, reinterpret_cast<std::uint32_t*>(bytes + mma_bulk_codes_slice(p.k, p.splits) * unit_bytes)};
  prepare_input(p, slice, s, input, norm);

  const int column = lane / 4 / kColumns;
  // Columns past the last token's are never looked at: any bytes will do.
  const int part = min(column / kSlots, p.m - 1) * kColumns + lane / 4 % kColumns;
  const int slot = column % kSlots;
  const int token = lane % 4 / kLanes;
  Lane at_x{input.bytes + part * (128 / kColumns) + lane % 4 * (32 / kColumns),
            slot,
            {},
            input.words + min(token, p.m - 1) * kUnitWords,
            lane % 4 % kLanes * kLaneSlots,
            lane,
            lane / 4,
            unit_bytes,
            m * kUnitWords};
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
      wait_barrier(&barriers.full[at.slot], at.parity);
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
      if (lane == 0) arrive(&barriers.empty[at.slot]);
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
