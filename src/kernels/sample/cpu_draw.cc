// Top-k, top-p and min-p without sorting the vocabulary: a histogram of the scaled logits tells how far down the wanted
// tokens reach, and only those are sorted.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/sample/philox.h"
#include "kernels/sample/row_kernels.h"
#include "kernels/sample/sample.h"
#include "kernels/sample/weight_units.h"

namespace pagoda::kernels {
namespace {

constexpr int kBinsPerUnit = 8;
constexpr int kBins = 1024;  // the last one holds all below e^-128 of the best

/// Monotone: a larger logit is never in a later bin.
int bin_of(double scaled) { return static_cast<int>(std::min(-scaled * kBinsPerUnit, static_cast<double>(kBins - 1))); }

/// The ids in `bins [0, last]`, best first, ties to the lower id.
template <class T>
void gather(std::span<const T> logits, double max, double inverse, int last, std::vector<std::int32_t>& out) {
  out.clear();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (bin_of((static_cast<double>(logits[id]) - max) * inverse) <= last) out.push_back(static_cast<std::int32_t>(id));
  }
  std::sort(out.begin(), out.end(), [&](std::int32_t a, std::int32_t b) {
    const T x = logits[static_cast<std::size_t>(a)];
    const T y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
}

/// The best `count` ids, or all that are there.
template <class T>
void gather_best(std::span<const T> logits, double max, double inverse, std::size_t count,
                 std::vector<std::int32_t>& out) {
  std::array<std::size_t, kBins> counts{};
  for (const T logit : logits) ++counts[static_cast<std::size_t>(bin_of((static_cast<double>(logit) - max) * inverse))];
  std::size_t seen = 0;
  std::size_t last = 0;
  for (; last + 1 < kBins; ++last) {
    seen += counts[last];
    if (seen >= count) break;
  }
  gather(logits, max, inverse, static_cast<int>(last), out);
  if (out.size() > count) out.resize(count);
}

/// Best ids whose mass is at least `mass`.
template <class T>
void gather_mass(std::span<const T> logits, double max, double inverse, std::uint64_t mass, DrawScratch& scratch) {
  std::array<std::uint64_t, kBins> masses{};
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double scaled = (static_cast<double>(logits[id]) - max) * inverse;
    masses[static_cast<std::size_t>(bin_of(scaled))] += scratch.weights[id];
  }
  std::uint64_t seen = 0;
  std::size_t last = 0;
  for (; last + 1 < kBins; ++last) {
    seen += masses[last];
    if (seen >= mass) break;
  }
  gather(logits, max, inverse, static_cast<int>(last), scratch.candidates);
}

/// Drops, from ids sorted best first, all after the first whose predecessors' mass reaches the wanted share.
void keep_mass(std::vector<std::int32_t>& ids, std::span<const std::uint64_t> weights, std::uint64_t wanted) {
  std::uint64_t before = 0;
  std::size_t kept = 0;
  for (; kept < ids.size() && before < wanted; ++kept) before += weights[static_cast<std::size_t>(ids[kept])];
  ids.resize(kept);
}

/// The first of ids, in their order, at which the running sum of weights passes word · total / 2^64.
std::int32_t walk(std::uint64_t word, std::span<const std::int32_t> ids, std::span<const std::uint64_t> weights) {
  std::uint64_t total = 0;
  for (const std::int32_t id : ids) total += weights[static_cast<std::size_t>(id)];
  const std::uint64_t threshold = multiply_high(word, total);
  std::uint64_t passed = 0;
  for (const std::int32_t id : ids) {
    passed += weights[static_cast<std::size_t>(id)];
    if (passed > threshold) return id;
  }
  return -1;  // never: the likeliest token weighs something
}

/// The same over the whole vocabulary, block by block.
std::int32_t walk_blocks(std::uint64_t word, std::span<const std::uint64_t> weights,
                         std::span<const std::uint64_t> block_sums) {
  std::uint64_t total = 0;
  for (const std::uint64_t sum : block_sums) total += sum;
  const std::uint64_t threshold = multiply_high(word, total);
  std::uint64_t passed = 0;
  std::size_t block = 0;
  for (; passed + block_sums[block] <= threshold; ++block) passed += block_sums[block];
  std::size_t id = block * kWeightBlock;
  while ((passed += weights[id]) <= threshold) ++id;
  return static_cast<std::int32_t>(id);
}

}  // namespace

template <class T>
void best_tokens(std::span<const T> logits, double log_sum, std::span<TokenLogprob> out, DrawScratch& scratch) {
  const double max = summarize(logits, scratch.isa).max;
  gather_best(logits, max, 1.0, out.size(), scratch.candidates);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int32_t id = scratch.candidates[i];
    out[i] = {id, static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - log_sum)};
  }
}

template <class T>
std::int32_t draw(std::span<const T> logits, const RowSummary& summary, const SampleSettings& settings,
                  std::int64_t position, DrawScratch& scratch) {
  if (settings.greedy()) return summary.best;
  const double max = summary.max;
  const double inverse = 1.0 / settings.temperature;
  const Weighing<T> how = weighing(static_cast<T>(max), inverse, weight_bits(std::ssize(logits)));
  const std::uint64_t word = draw_word(settings.seed, settings.choice, position);
  const std::uint64_t floor = wanted_units(settings.min_p, std::uint64_t{1} << how.bits);
  const std::span<std::uint64_t> weights(scratch.weights.data(), logits.size());
  const auto blocks = static_cast<std::size_t>(ceil_div<std::int64_t>(std::ssize(logits), kWeightBlock));
  const std::span<std::uint64_t> block_sums(scratch.block_sums.data(), blocks);
  const auto weigh_all = [&](std::uint64_t least) {
    row_kernels<T>(scratch.isa)
        .weights(logits.data(), std::ssize(logits), how, least, weights.data(), block_sums.data());
  };
  std::vector<std::int32_t>& ids = scratch.candidates;
  std::uint64_t mass = 0;
  if (settings.top_k > 0 && static_cast<std::size_t>(settings.top_k) < logits.size()) {
    gather_best(logits, max, inverse, static_cast<std::size_t>(settings.top_k), ids);
    for (const std::int32_t id : ids) {
      const auto at = static_cast<std::size_t>(id);
      mass += weights[at] = weight_units(logits[at], how);
    }
    if (settings.top_p < 1) keep_mass(ids, weights, wanted_units(settings.top_p, mass));
  } else if (settings.top_p < 1) {
    weigh_all(0);
    for (const std::uint64_t sum : block_sums) mass += sum;
    const std::uint64_t wanted = wanted_units(settings.top_p, mass);
    gather_mass(logits, max, inverse, wanted, scratch);
    keep_mass(ids, weights, wanted);
  } else {
    weigh_all(floor);
    return walk_blocks(word, weights, block_sums);
  }
  std::erase_if(ids, [&](std::int32_t id) { return weights[static_cast<std::size_t>(id)] < floor; });
  std::sort(ids.begin(), ids.end());
  return walk(word, ids, weights);
}

template void best_tokens(std::span<const float>, double, std::span<TokenLogprob>, DrawScratch&);
template void best_tokens(std::span<const double>, double, std::span<TokenLogprob>, DrawScratch&);
template std::int32_t draw(std::span<const float>, const RowSummary&, const SampleSettings&, std::int64_t,
                           DrawScratch&);
template std::int32_t draw(std::span<const double>, const RowSummary&, const SampleSettings&, std::int64_t,
                           DrawScratch&);

}  // namespace pagoda::kernels
