// One pass over a row each: largest logit, log-sum-exp, and the changes before a draw.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/sample/row_kernels.h"
#include "kernels/sample/sample.h"

namespace pagoda::kernels {
namespace {

/// The number whose order key this is.
template <class T>
T from_order_key(OrderKey<T> key) {
  return std::bit_cast<T>(key ^ ((key >> (8 * sizeof key - 1)) & std::numeric_limits<OrderKey<T>>::max()));
}

/// The first place of a value that is there: whole pieces are compared first, which compilers vectorise.
template <class T>
std::int32_t first_place(std::span<const T> row, T value) {
  constexpr std::size_t kPiece = 512;
  std::size_t begin = 0;
  for (; begin + kPiece <= row.size(); begin += kPiece) {
    std::int32_t found = 0;
    for (std::size_t i = begin; i < begin + kPiece; ++i) found |= row[i] == value ? 1 : 0;
    if (found != 0) break;
  }
  return static_cast<std::int32_t>(std::find(row.begin() + static_cast<std::int64_t>(begin), row.end(), value) -
                                   row.begin());
}

}  // namespace

DrawScratch::DrawScratch(std::int64_t vocab, device::CpuIsa instructions)
    : isa(instructions),
      weights(static_cast<std::size_t>(vocab)),
      block_sums(static_cast<std::size_t>(vocab / kWeightBlock + 1)) {
  candidates.reserve(static_cast<std::size_t>(vocab));
}

template <class T>
RowSummary summarize(std::span<const T> logits, device::CpuIsa isa) {
  const auto infinity = order_key(std::numeric_limits<T>::infinity());
  OrderKey<T> best, magnitude;
  row_kernels<T>(isa).extremes(logits.data(), std::ssize(logits), &best, &magnitude);
  const RowSummary none{.max = -std::numeric_limits<double>::infinity(), .best = -1, .finite = false};
  // A NaN of negative sign is below every number in key order, so its magnitude tells.
  if (magnitude > infinity || best == infinity || logits.empty()) return none;
  if (best == order_key(-std::numeric_limits<T>::infinity())) return none;
  const T max = from_order_key<T>(best);
  return {.max = static_cast<double>(max), .best = first_place(logits, max), .finite = true};
}

template <class T>
double log_sum_exp(std::span<const T> logits, double max, device::CpuIsa isa) {
  return max + std::log(row_kernels<T>(isa).sum_exp(logits.data(), std::ssize(logits), max));
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

template RowSummary summarize(std::span<const float>, device::CpuIsa);
template RowSummary summarize(std::span<const double>, device::CpuIsa);
template double log_sum_exp(std::span<const float>, double, device::CpuIsa);
template double log_sum_exp(std::span<const double>, double, device::CpuIsa);
template void change_logits(std::span<float>, const SampleSettings&, const LogitChanges&);
template void change_logits(std::span<double>, const SampleSettings&, const LogitChanges&);

}  // namespace pagoda::kernels
