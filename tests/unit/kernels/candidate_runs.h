// Every host candidate of an operation on the machine at hand, and how far floats are from doubles.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "device/caps.h"
#include "kernels/candidate.h"

namespace pagoda::kernels::testing {

template <class Kernel>
struct HostCandidate {
  const Kernel* kernel;
  device::DeviceCaps caps;
};

/// The candidates that support `problem` here, each with the least set of instructions that has it.
template <class Kernel, class Problem>
std::vector<HostCandidate<Kernel>> host_candidates(std::span<const Kernel> kernels, const Problem& problem) {
  using device::CpuIsa;
  std::vector<HostCandidate<Kernel>> out;
  for (const Kernel& kernel : kernels) {
    for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
      if (isa > device::detect_isa()) break;
      const device::DeviceCaps caps = device::cpu_caps(isa).value();
      if (!kernel.supports(problem, caps)) continue;
      out.push_back({&kernel, caps});
      break;
    }
  }
  return out;
}

/// Normal numbers of the given deviation.
inline std::vector<float> normal_floats(std::int64_t n, unsigned seed, double scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) x = static_cast<float>(normal(random));
  return out;
}

inline std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// A vector of NaN, to show that a kernel writes what it should.
template <class T>
std::vector<T> poisoned(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n), std::numeric_limits<T>::quiet_NaN());
}

/// Largest |got - want| / |want|, over the larger of |want| and `floor`; infinite where only one of them is NaN.
template <class Got>
double largest_relative_error(const std::vector<Got>& got, const std::vector<double>& want, double floor = 1e-30) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    const double difference = std::fabs(static_cast<double>(got[i]) - want[i]) / std::max(std::fabs(want[i]), floor);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    error = std::max(error, difference);
  }
  return error;
}

}  // namespace pagoda::kernels::testing
