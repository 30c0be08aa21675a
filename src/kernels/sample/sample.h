// Drawing a token from a row of logits: one semantics for every device.
//
//   logit bias → repetition penalty (prompt and output) → presence and frequency penalties (output) → mask →
//   temperature → top-k → top-p → min-p → draw
//
// Log-probabilities are those of the raw row, before any of it. All of it is in double precision, the maximum
// subtracted before the temperature divides, so that no temperature makes a NaN; weights are then counted in whole
// units (weight_units.h), whose sums are exact. A row depends on nothing but its own arguments.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "device/caps.h"
#include "pagoda/types.h"

namespace pagoda::kernels {

/// A temperature so low that only a logit equal to the best in all its digits could still be drawn beside it.
inline constexpr double kGreedyBelow = 1e-30;

/// What a request's SamplingParams are once every default is known.
struct SampleSettings {
  double temperature = 0;  ///< below kGreedyBelow: the largest logit, ties to the lower id
  std::int32_t top_k = 0;  ///< 0: off
  double top_p = 1;        ///< the fewest best tokens whose mass (after top-k) reaches it
  double min_p = 0;        ///< no token less likely than this times the likeliest
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;

  bool greedy() const { return temperature < kGreedyBelow || top_k == 1; }
  bool penalises() const { return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0; }
};

/// A token that the sequence holds already.
struct SeenToken {
  std::int32_t id = 0;
  std::int32_t in_output = 0;  ///< times; 0: it is of the prompt alone
};

/// What changes a row's logits before a token is drawn.
struct LogitChanges {
  std::span<const std::pair<std::int32_t, float>> bias = {};
  std::span<const SeenToken> seen = {};       ///< each id at most once; read only if the settings penalise
  std::span<const std::int32_t> masked = {};  ///< ids that may not be drawn now
};

/// What one pass over a row finds.
struct RowSummary {
  double max = 0;
  std::int32_t best = 0;  ///< the lowest id with the largest logit
  bool finite = true;     ///< false: a NaN, a positive infinity, or nothing above negative infinity: no distribution
};

/// Memory of one worker's draws, for rows of up to `vocab` logits, and the instructions it may use: they change no bit.
struct DrawScratch {
  explicit DrawScratch(std::int64_t vocab, device::CpuIsa instructions = device::CpuIsa::kPortable);
  device::CpuIsa isa;
  std::vector<std::uint64_t> weights;     // by id, in units
  std::vector<std::uint64_t> block_sums;  // of weights
  std::vector<std::int32_t> candidates;
};

/// T is float or double, here and below.
template <class T>
RowSummary summarize(std::span<const T> logits, device::CpuIsa isa = device::CpuIsa::kPortable);

/// ln Σ exp(logit), `max` being the row's largest: what a logit less it gives the token's log-probability.
template <class T>
double log_sum_exp(std::span<const T> logits, double max, device::CpuIsa isa = device::CpuIsa::kPortable);

/// The best `out.size()` (≤ vocab) tokens, best first, ties to the lower id.
template <class T>
void best_tokens(std::span<const T> logits, double log_sum, std::span<TokenLogprob> out, DrawScratch& scratch);

/// Applies the changes, in the order above, in place.
template <class T>
void change_logits(std::span<T> logits, const SampleSettings& settings, const LogitChanges& changes);

/// Draws the token for `position` from a changed row; `summary` is of that row and must be finite.
template <class T>
std::int32_t draw(std::span<const T> logits, const RowSummary& summary, const SampleSettings& settings,
                  std::int64_t position, DrawScratch& scratch);

/// The same, written as the definition reads: sorts everything. The truth that `draw` is measured against.
std::int32_t draw_reference(std::span<const double> logits, const SampleSettings& settings, std::int64_t position);

}  // namespace pagoda::kernels
