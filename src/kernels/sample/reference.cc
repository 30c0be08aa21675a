#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/sample/philox.h"
#include "kernels/sample/sample.h"

namespace pagoda::kernels {

std::int32_t draw_reference(std::span<const double> logits, const SampleSettings& settings, std::int64_t position) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (settings.greedy()) return ids.front();
  if (settings.top_k > 0 && static_cast<std::size_t>(settings.top_k) < ids.size()) {
    ids.resize(static_cast<std::size_t>(settings.top_k));
  }
  const double max = logit(ids.front());
  const auto weight = [&](std::int32_t id) { return std::exp((logit(id) - max) / settings.temperature); };
  double mass = 0;
  for (const std::int32_t id : ids) mass += weight(id);
  if (settings.top_p < 1) {
    double before = 0;
    std::size_t kept = 0;
    while (kept < ids.size() && (kept == 0 || before < settings.top_p * mass)) before += weight(ids[kept++]);
    ids.resize(kept);
  }
  std::erase_if(ids, [&](std::int32_t id) { return weight(id) < settings.min_p || weight(id) == 0; });
  std::sort(ids.begin(), ids.end());
  mass = 0;
  for (const std::int32_t id : ids) mass += weight(id);
  const double threshold = draw_number(settings.seed, settings.choice, position) * mass;
  double passed = 0;
  for (const std::int32_t id : ids) {
    passed += weight(id);
    if (passed > threshold) return id;
  }
  return ids.back();
}

}  // namespace pagoda::kernels
