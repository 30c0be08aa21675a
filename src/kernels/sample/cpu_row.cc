// One pass over a row each: largest logit, log-sum-exp, and the changes before a draw. The passes are integer or
// independent chains, so that compilers vectorise them; a row of 262,144 is read at about memory speed.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/sample/exp_nonpositive.h"
#include "kernels/sample/sample.h"

namespace pagoda::kernels {
namespace {

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// Bits as a signed integer that orders as the numbers do (NaN aside): integer maxima vectorise, floating ones do not.
template <class T>
KeyOf<T> order_key(T value) {
  using Key = KeyOf<T>;
  const Key bits = std::bit_cast<Key>(value + T{0});  // -0 becomes +0
  return bits ^ ((bits >> (8 * sizeof(Key) - 1)) & std::numeric_limits<Key>::max());
}

}  // namespace

template <class T>
RowSummary summarize(std::span<const T> logits) {
  using Key = KeyOf<T>;
  const Key infinity = std::bit_cast<Key>(std::numeric_limits<T>::infinity());
  Key best = std::numeric_limits<Key>::min();
  Key largest_magnitude = 0;  // from infinity on: a NaN or an infinity of either sign
  for (const T value : logits) {
    const Key key = order_key(value);
    const Key magnitude = std::bit_cast<Key>(value) & std::numeric_limits<Key>::max();
    best = key > best ? key : best;
    largest_magnitude = magnitude > largest_magnitude ? magnitude : largest_magnitude;
  }
  RowSummary summary{.max = -std::numeric_limits<double>::infinity(), .best = -1, .finite = false};
  // A NaN of negative sign is below every number in key order, so its magnitude tells.
  if (largest_magnitude > infinity || best == infinity || logits.empty()) return summary;
  if (best == order_key(-std::numeric_limits<T>::infinity())) return summary;
  const auto at = std::find_if(logits.begin(), logits.end(), [best](T value) { return order_key(value) == best; });
  return {.max = static_cast<double>(*at), .best = static_cast<std::int32_t>(at - logits.begin()), .finite = true};
}

template <class T>
double log_sum_exp(std::span<const T> logits, double max) {
  constexpr std::size_t kChains = 16;
  double chains[kChains] = {};
  std::size_t i = 0;
  for (; i + kChains <= logits.size(); i += kChains) {
    for (std::size_t c = 0; c < kChains; ++c) {
      chains[c] += exp_nonpositive(static_cast<double>(logits[i + c]) - max);
    }
  }
  for (std::size_t c = 0; i < logits.size(); ++i, ++c) {
    chains[c] += exp_nonpositive(static_cast<double>(logits[i]) - max);
  }
  double sum = 0;
  for (const double chain : chains) sum += chain;
  return max + std::log(sum);
}

template <class T>
void change_logits(std::span<T> logits, const SampleSettings& settings, const LogitChanges& changes) {
  for (const auto& [id, bias] : changes.bias) {
    T& logit = logits[static_cast<std::size_t>(id)];
    logit = static_cast<T>(static_cast<double>(logit) + static_cast<double>(bias));
  }
  if (settings.penalises()) {
    for (const SeenToken& token : changes.seen) {
      T& logit = logits[static_cast<std::size_t>(token.id)];
      double value = static_cast<double>(logit);
      value = value > 0 ? value / settings.repetition_penalty : value * settings.repetition_penalty;
      if (token.in_output > 0) {
        value -= settings.presence_penalty + settings.frequency_penalty * token.in_output;
      }
      logit = static_cast<T>(value);
    }
  }
  for (const std::int32_t id : changes.masked) {
    logits[static_cast<std::size_t>(id)] = -std::numeric_limits<T>::infinity();
  }
}

template RowSummary summarize(std::span<const float>);
template RowSummary summarize(std::span<const double>);
template double log_sum_exp(std::span<const float>, double);
template double log_sum_exp(std::span<const double>, double);
template void change_logits(std::span<float>, const SampleSettings&, const LogitChanges&);
template void change_logits(std::span<double>, const SampleSettings&, const LogitChanges&);

}  // namespace pagoda::kernels
