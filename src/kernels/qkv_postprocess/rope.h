// Rotary position embedding: for pair i of a head and position p, (a, b) becomes (a cos - b sin, b cos + a sin) with
// angle p · inverse_frequency(i); cos and sin are multiplied by the attention factor. All in double precision.
// Sources: RoFormer (arXiv 2104.09864); YaRN (arXiv 2309.00071) and the Llama 3 scaling as Hugging Face transformers
// compute them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace pagoda::kernels {

enum class RopeKind : std::uint8_t {
  kNone,          ///< no rotation
  kDefault,       ///< theta^(-2i / rotary_dim); partial when rotary_dim < head_dim
  kLinear,        ///< the default's, divided by `factor`
  kLlama3,        ///< long wavelengths divided by `factor`, short ones kept, a ramp between
  kYarn,          ///< interpolation and extrapolation mixed by wavelength, and an attention factor
  kProportional,  ///< pairs span the whole head, base head_dim; only the first rotary_dim / 2 pairs rotate
  kLongrope,      ///< the default's, each pair divided by its own factor, and an attention factor
};

enum class RopePairing : std::uint8_t {
  kHalfSplit,    ///< elements i and i + pairing_dim / 2
  kInterleaved,  ///< elements 2i and 2i + 1 (how GGUF files of architecture llama store their rows)
};

struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  RopePairing pairing = RopePairing::kHalfSplit;
  double theta = 10000;
  std::int64_t head_dim = 0;    ///< even
  std::int64_t rotary_dim = 0;  ///< even, at most head_dim
  double factor = 1;            ///< of kLinear, kLlama3, kYarn
  double low_freq_factor = 1;   ///< of kLlama3, as the next
  double high_freq_factor = 4;
  double original_context = 0;  ///< of kLlama3 and kYarn: positions the model was first trained for
  double beta_fast = 32;        ///< of kYarn, as all below
  double beta_slow = 1;
  bool truncate = true;         ///< round the ramp's ends outwards to whole pairs
  double attention_factor = 0;  ///< 0: derived from factor, mscale and mscale_all_dim; kLongrope always has it
  double mscale = 0;            ///< 0: not given
  double mscale_all_dim = 0;
  std::vector<double> pair_factors = {};        ///< of kLongrope: one a pair
  std::vector<double> frequency_divisors = {};  ///< one a pair, applied last (GGUF's rope_freqs); empty: none

  bool operator==(const RopeSpec&) const = default;

  /// Elements that pairs are formed from: head_dim for kProportional, else rotary_dim.
  std::int64_t pairing_dim() const { return kind == RopeKind::kProportional ? head_dim : rotary_dim; }
  std::int64_t num_pairs() const { return kind == RopeKind::kNone ? 0 : rotary_dim / 2; }
};

/// The rotation a pair makes at each position, by one formula of double precision.
std::vector<double> rope_inverse_frequencies(const RopeSpec& spec);
double rope_attention_factor(const RopeSpec& spec);

/// cos and sin for every position below `max_positions`, from two small tables by the addition theorem in double
/// precision (error below 1e-15), so that a long context costs kilobytes. Immutable; shared by layers and threads.
class RopeTable {
 public:
  /// Of the pairs of `spec` only; the attention factor is part of the values.
  RopeTable(const RopeSpec& spec, std::int64_t max_positions);

  const RopeSpec& spec() const { return spec_; }
  std::int64_t num_pairs() const { return pairs_; }
  std::int64_t max_positions() const { return max_positions_; }

  struct Rotation {
    double cosine, sine;
  };
  /// Of one pair at a position in [0, max_positions).
  Rotation at(std::int64_t position, std::int64_t pair) const {
    const double* low = low_.data() + (position % kStep) * 2 * pairs_ + pair;
    const double* high = high_.data() + (position / kStep) * 2 * pairs_ + pair;
    return {high[0] * low[0] - high[pairs_] * low[pairs_], high[pairs_] * low[0] + high[0] * low[pairs_]};
  }

  /// All rotations, for kernels that look them up: (max_positions, num_pairs, 2), cosine and sine rounded once.
  std::vector<float> rows() const;

  /// The two tables themselves, for kernels: rows of (2, num_pairs) cosines and sines. Position p is the product of the
  /// rotations in row p % kStep of `low` and row p / kStep of `high`.
  static constexpr std::int64_t kStep = 64;
  const double* low() const { return low_.data(); }
  const double* high() const { return high_.data(); }

 private:
  RopeSpec spec_;
  std::int64_t pairs_ = 0;
  std::int64_t max_positions_ = 0;
  std::vector<double> low_;   // (kStep, 2, pairs): cos, sin of position in [0, kStep)
  std::vector<double> high_;  // (positions / kStep, 2, pairs), times the attention factor
};

}  // namespace pagoda::kernels
