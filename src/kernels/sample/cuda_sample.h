// Parameters of cuda_sample.cu, shared by host and device: what lies where between a row of logits and its token.
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

inline constexpr int kSampleThreads = 256;
inline constexpr int kSampleWarps = kSampleThreads / 32;
inline constexpr int kSamplePiece =
    1024;  ///< logits that a block takes at once; a warp takes 128 that follow each other
inline constexpr int kSampleMaxPieces = 1024;  ///< of a row: vocabularies up to 2^20
inline constexpr int kSampleBins = 1024;
inline constexpr int kSampleList = 2048;    ///< most tokens between which a limit falls that are looked at one by one
inline constexpr int kSampleMaxBest = 128;  ///< best log-probabilities of a row

// A slot's word for each token of the vocabulary; read only if the slot's flags say so.
inline constexpr std::uint32_t kSampleSeen = 1u << 31;            ///< prompt or output hold it
inline constexpr std::uint32_t kSampleEnds = 1u << 30;            ///< not drawn before position first_end
inline constexpr std::uint32_t kSampleBiased = 1u << 29;          ///< it stands in the slot's list of biases
inline constexpr std::uint32_t kSampleCount = kSampleBiased - 1;  ///< times in the output

// Flags of a slot.
inline constexpr std::uint32_t kSampleGreedy = 1;
inline constexpr std::uint32_t kSamplePenalises = 2;
inline constexpr std::uint32_t kSampleWords = 4;  ///< biases, penalties or ends to hold back: words are to be read

/// SampleSettings as kernels read them.
struct CudaSampleSlot {
  double inverse;  ///< 1 / temperature
  double top_p, min_p;
  double repetition_penalty, presence_penalty, frequency_penalty;
  std::uint64_t seed;
  std::int64_t first_end;
  std::uint32_t choice;
  std::int32_t top_k;  ///< 0: off, also where it is the whole vocabulary
  std::int32_t num_bias;
  std::uint32_t flags;
};

struct CudaSampleBias {
  std::int32_t id;
  float value;
};

/// What a step wants of a row of logits.
struct CudaSampleRow {
  std::int64_t position;  ///< of the token that is drawn
  std::int32_t slot;      ///< -1: nothing, the row is padding
  std::int32_t draws;     ///< 1: a token is drawn
  std::int32_t target;    ///< its log-probability is wanted; -1: none
  std::int32_t num_best;  ///< log-probabilities: so many best ones, and the drawn one's; -1: none, unless of a target
};

struct CudaSampleResult {
  std::int32_t id;          ///< -1: none drawn
  std::int32_t non_finite;  ///< 1: a token was to be drawn, but the logits are no distribution
  float logprob;            ///< of id, if num_best ≥ 0
  float target_logprob;     ///< NaN if the raw logits are no distribution
};

/// As TokenLogprob. Id -1 and NaN if the raw logits are no distribution.
struct CudaSampleBest {
  std::int32_t id;
  float logprob;
};

/// What the kernels of a step hand on about a row. Zero before the first step; counters are left zero by each.
struct CudaSampleState {
  double log_sum;
  std::uint64_t wanted;  ///< tokens that top-k keeps of the last bin, or units of mass that top-p keeps of the row
  float raw_max, max;
  std::uint32_t todo;
  std::int32_t last_bin[2], sure_bin;  ///< [0]: of the draw, [1]: of the best log-probabilities
  std::uint32_t in_bins[2];            ///< tokens in bins (sure_bin, last_bin]
  std::uint32_t arrived[5];            ///< blocks that have ended, by kernel and part
  std::uint32_t listed[2];
};

struct CudaSampleParams {
  const float* logits;  ///< (rows, vocab)
  std::int64_t stride, vocab;
  const CudaSampleRow* rows;    ///< (rows)
  const CudaSampleSlot* slots;  ///< (slots)
  const CudaSampleBias* bias;   ///< (slots, max_bias), each slot's in order of ids
  std::uint32_t* words;         ///< (slots, vocab)
  std::int32_t* last_ids;       ///< (slots)
  CudaSampleResult* results;    ///< (rows)
  CudaSampleBest* best;         ///< (rows, max_best)
  CudaSampleState* states;      ///< (rows)
  std::uint64_t* partials;      ///< (rows, pieces, 2)
  std::uint64_t* masses;        ///< (rows, pieces, kSampleWarps)
  double* sums;                 ///< (rows, pieces, kSampleWarps)
  std::uint32_t* bins;          ///< (rows, 2, kSampleBins), zero between steps
  std::uint64_t* lists;         ///< (rows, 2, kSampleList)
  std::int32_t pieces, max_best, max_bias, weight_bits;
};

}  // namespace pagoda::kernels
