// Start-up tuning: off unless asked for. It measures whole captured steps, launched in two ways that compute the same
// bits, and keeps the faster one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "model/plan.h"
#include "runtime/cuda_graphs.h"

namespace pagoda::runtime {

inline constexpr double kTuneSeconds = 5;         ///< of measuring, at most
inline constexpr double kTuneMostSlower = 1.03;   ///< of any bucket: what is slower anywhere is not taken
inline constexpr double kTuneLeastFaster = 0.99;  ///< of all buckets together: less of a gain is noise

/// Which of some variants to run, by the microseconds of each bucket's step: 0, the default, unless another takes less
/// time over all buckets and is slower in none, by these bounds. A variant that was not measured whole, or whose times
/// are no times, is not taken.
std::size_t pick_variant(std::span<const std::vector<double>> microseconds);

/// The ways in which a captured step is launched.
enum class StepLaunch : std::uint8_t {
  kProgrammatic,  ///< kernels that may start before the one in front of them is done: the default
  kOrdinary,
};

/// What was decided, and how: in words for people.
struct Tuned {
  StepLaunch launch = StepLaunch::kProgrammatic;
  std::string reason;
};

/// Decides between graphs of the same buckets, `graphs[i]` being StepLaunch i: by an earlier measurement on this card
/// if there is one, else by measuring for at most kTuneSeconds. What their steps read is in place. Throws DeviceError.
Tuned tune(const model::Plan& plan, std::span<const CudaGraphs* const> graphs, device::cuda::CudaDevice& device,
           device::cuda::CudaStream& stream);

}  // namespace pagoda::runtime
