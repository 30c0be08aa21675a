// Top-k, top-p and min-p without sorting the vocabulary: a histogram of the scaled logits tells how far down the wanted
// tokens reach, and only those are sorted.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/sample/exp_nonpositive.h"
#include "kernels/sample/philox.h"
#include "kernels/sample/row_kernels.h"
#include "kernels/sample/sample.h"

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
void gather_mass(std::span<const T> logits, double max, double inverse, double mass, DrawScratch& scratch) {
  std::array<double, kBins> masses{};
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double scaled = (static_cast<double>(logits[id]) - max) * inverse;
    masses[static_cast<std::size_t>(bin_of(scaled))] += scratch.weights[id];
  }
  // Bins are summed in another order than the walk over sorted ids: the margin is far above what that can differ by.
  const double enough = mass * (1 + 1e-9);
  double seen = 0;
  std::size_t last = 0;
  for (; last + 1 < kBins; ++last) {
    seen += masses[last];
    if (seen >= enough) break;
  }
  gather(logits, max, inverse, static_cast<int>(last), scratch.candidates);
}

/// Drops, from ids sorted best first, all after the first whose predecessors' mass reaches the wanted share.
void keep_mass(std::vector<std::int32_t>& ids, std::span<const double> weights, double wanted) {
  double before = 0;
  std::size_t kept = 0;
  for (; kept < ids.size() && (kept == 0 || before < wanted); ++kept) {
    before += weights[static_cast<std::size_t>(ids[kept])];
  }
  ids.resize(kept);
}

/// The first of ids, in their order, at which the running sum of weights passes number · total.
std::int32_t walk(double number, std::span<const std::int32_t> ids, std::span<const double> weights) {
  const auto weight = [&](std::int32_t id) { return weights[static_cast<std::size_t>(id)]; };
  double total = 0;
  for (const std::int32_t id : ids) total += weight(id);
  double passed = 0;
  std::int32_t last = -1;
  for (const std::int32_t id : ids) {
    if (weight(id) <= 0) continue;
    passed += weight(id);
    last = id;
    if (passed > number * total) break;
  }
  return last;
}

/// The same over the whole vocabulary, block by block.
std::int32_t walk_blocks(double number, std::span<const double> weights, std::span<const double> block_sums) {
  double total = 0;
  for (const double sum : block_sums) total += sum;
  double passed = 0;
  std::int32_t last = -1;
  for (std::size_t b = 0; b < block_sums.size(); ++b) {
    if (block_sums[b] <= 0) continue;
    const std::size_t begin = b * kWeightBlock;
    const bool here = passed + block_sums[b] > number * total;
    if (!here && b + 1 < block_sums.size()) {
      passed += block_sums[b];
      last = static_cast<std::int32_t>(begin);  // if rounding leaves nothing to pass the threshold
      continue;
    }
    for (std::size_t i = begin; i < std::min(begin + kWeightBlock, weights.size()); ++i) {
      if (weights[i] <= 0) continue;
      passed += weights[i];
      last = static_cast<std::int32_t>(i);
      if (passed > number * total) return last;
    }
  }
  return last;
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
  const double number = draw_number(settings.seed, settings.choice, position);
  const std::span<double> weights(scratch.weights.data(), logits.size());
  const auto blocks = static_cast<std::size_t>(ceil_div<std::int64_t>(std::ssize(logits), kWeightBlock));
  const std::span<double> block_sums(scratch.block_sums.data(), blocks);
  const auto weigh_all = [&](double floor) {
    row_kernels<T>(scratch.isa)
        .weights(logits.data(), std::ssize(logits), max, inverse, floor, weights.data(), block_sums.data());
  };
  std::vector<std::int32_t>& ids = scratch.candidates;
  double mass = 0;
  if (settings.top_k > 0 && static_cast<std::size_t>(settings.top_k) < logits.size()) {
    gather_best(logits, max, inverse, static_cast<std::size_t>(settings.top_k), ids);
    for (const std::int32_t id : ids) {
      const auto at = static_cast<std::size_t>(id);
      weights[at] = exp_nonpositive((static_cast<double>(logits[at]) - max) * inverse);
      mass += weights[at];
    }
  } else if (settings.top_p < 1) {
    weigh_all(0);
    for (const double sum : block_sums) mass += sum;
    gather_mass(logits, max, inverse, settings.top_p * mass, scratch);
  } else {
    weigh_all(settings.min_p);  // the likeliest token weighs 1
    return walk_blocks(number, weights, block_sums);
  }
  if (settings.top_p < 1) keep_mass(ids, weights, settings.top_p * mass);
  std::erase_if(ids, [&](std::int32_t id) { return weights[static_cast<std::size_t>(id)] < settings.min_p; });
  std::sort(ids.begin(), ids.end());
  return walk(number, ids, weights);
}

template void best_tokens(std::span<const float>, double, std::span<TokenLogprob>, DrawScratch&);
template void best_tokens(std::span<const double>, double, std::span<TokenLogprob>, DrawScratch&);
template std::int32_t draw(std::span<const float>, const RowSummary&, const SampleSettings&, std::int64_t,
                           DrawScratch&);
template std::int32_t draw(std::span<const double>, const RowSummary&, const SampleSettings&, std::int64_t,
                           DrawScratch&);

}  // namespace pagoda::kernels
