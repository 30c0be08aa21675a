#include "runtime/tuning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/sha256.h"
#include "runtime/cuda_runner.h"

namespace pagoda::runtime {
namespace {

using device::cuda::CudaDevice;
using device::cuda::CudaStream;
using device::cuda::Event;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr int kReplays = 4;  // in a row

constexpr std::string_view kNames[] = {"programmatic launches", "ordinary launches"};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Microseconds of each variant and bucket; variants take turns, so that a clock that drifts meets them alike. Nothing
/// if time was over before every bucket had its rounds.
std::optional<std::vector<std::vector<double>>> measure(std::span<const CudaGraphs* const> graphs, CudaStream& stream) {
  const Clock::time_point begin = Clock::now();
  Event start(stream.context_ptr(), true), end(stream.context_ptr(), true);
  std::vector<std::vector<double>> medians(graphs.size());
  for (const std::int64_t bucket : graphs.front()->captured()) {
    std::vector<std::vector<double>> rounds(graphs.size());
    for (int round = 0; round <= kRounds; ++round) {
      for (std::size_t v = 0; v < graphs.size(); ++v) {
        start.record(stream);
        for (int i = 0; i < kReplays; ++i) graphs[v]->launch(bucket, stream);
        end.record(stream);
        end.synchronize();
        // The first round warms up.
        if (round > 0) rounds[v].push_back(static_cast<double>(end.elapsed_ms_since(start)) * 1000 / kReplays);
      }
      if (std::chrono::duration<double>(Clock::now() - begin).count() > kTuneSeconds) return std::nullopt;
    }
    for (std::size_t v = 0; v < graphs.size(); ++v) medians[v].push_back(median(rounds[v]));
  }
  return medians;
}

/// A name for all that the times depend on.
std::string name_of(const model::Plan& plan, const CudaGraphs& graphs, CudaDevice& device) {
  std::string text =
      pagoda::format("{} {} {}", device.caps().name, device.context()->driver().version(), plan.spec.layers.size());
  for (const device::CompileUnit& unit : cuda_runner_units(plan)) {
    const Result<std::string> key = device.compiler().key(unit);
    text += " " + (key.ok() ? *key : unit.source);
  }
  for (const model::WeightPlan& weight : plan.weights) text += pagoda::format(" {}", weight.bytes);
  for (const std::int64_t rows : graphs.captured()) text += pagoda::format(" {}", rows);
  return "tuning-" + to_hex(sha256(text));
}

std::string describe(std::size_t chosen, std::span<const std::vector<double>> times) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times[0].size(); ++i) ratios.push_back(times[1][i] / times[0][i]);
  return pagoda::format("{}: a step takes {:.3f} to {:.3f} times as long with {} as with {}", kNames[chosen],
                        *std::ranges::min_element(ratios), *std::ranges::max_element(ratios), kNames[1], kNames[0]);
}

}  // namespace

std::size_t pick_variant(std::span<const std::vector<double>> microseconds) {
  if (microseconds.empty() || microseconds.front().empty()) return 0;
  const std::vector<double>& base = microseconds.front();
  const auto usable = [](double time) { return std::isfinite(time) && time > 0; };
  if (!std::ranges::all_of(base, usable)) return 0;
  std::size_t best = 0;
  double least = std::accumulate(base.begin(), base.end(), 0.0) * kTuneLeastFaster;
  for (std::size_t v = 1; v < microseconds.size(); ++v) {
    const std::vector<double>& times = microseconds[v];
    if (times.size() != base.size() || !std::ranges::all_of(times, usable)) continue;
    bool slower = false;
    for (std::size_t i = 0; i < base.size(); ++i) slower = slower || times[i] > base[i] * kTuneMostSlower;
    const double total = std::accumulate(times.begin(), times.end(), 0.0);
    if (slower || total > least) continue;
    best = v;
    least = total;
  }
  return best;
}

Tuned tune(const model::Plan& plan, std::span<const CudaGraphs* const> graphs, CudaDevice& device, CudaStream& stream) {
  PAGODA_CHECK(graphs.size() == std::size(kNames), "{} variants", graphs.size());
  const std::string name = name_of(plan, *graphs.front(), device);
  if (const std::vector<std::byte> kept = device.compiler().kept(name); kept.size() > 1) {
    const auto launch = std::to_integer<std::size_t>(kept.front());
    if (launch < graphs.size()) {
      const std::string reason(reinterpret_cast<const char*>(kept.data()) + 1, kept.size() - 1);
      return {static_cast<StepLaunch>(launch), reason + " (measured earlier)"};
    }
  }
  const auto times = measure(graphs, stream);
  if (!times) {
    return {StepLaunch::kProgrammatic,
            pagoda::format("{}: not tuned, {} seconds were too few", kNames[0], static_cast<int>(kTuneSeconds))};
  }
  const std::size_t chosen = pick_variant(*times);
  Tuned tuned{static_cast<StepLaunch>(chosen), describe(chosen, *times)};
  std::vector<std::byte> bytes = {static_cast<std::byte>(chosen)};
  for (const char c : tuned.reason) bytes.push_back(static_cast<std::byte>(c));
  device.compiler().keep(name, bytes);
  return tuned;
}

}  // namespace pagoda::runtime
