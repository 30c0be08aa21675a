#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

bool alike(const LinearWeightSpec& a, const LinearWeightSpec& b) {
  if (a.layout != b.layout) return false;
  return a.layout == &kMma16Layout || *a.format->coding == *b.format->coding;
}

/// The places of the weights that go into one launch, launch by launch.
std::vector<std::vector<std::size_t>> cut(const LinearProblem& problem) {
  std::vector<std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < problem.specs().size(); ++i) {
    const auto part = std::ranges::find_if(
        parts, [&](const auto& each) { return alike(problem.specs()[each[0]], problem.specs()[i]); });
    if (part == parts.end()) {
      parts.push_back({i});
    } else {
      part->push_back(i);
    }
  }
  return parts;
}

CudaProductProblem problem_of(const CudaProductProblem& problem, const std::vector<std::size_t>& places) {
  CudaProductProblem part = problem;
  part.linear.num_weights = static_cast<int>(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) part.linear.weights[i] = problem.linear.weights[places[i]];
  return part;
}

bool has_codes(const CudaProductProblem& part) { return part.linear.weights[0].layout == &kMmaCodesLayout; }

std::int64_t most_rows(const CudaProductProblem& problem) { return std::min(kMostRowsInTurn, problem.linear.max_m); }

}  // namespace

bool FewRows::supports(const CudaProductProblem& problem, std::int64_t m, const device::DeviceCaps& caps) {
  const auto parts = cut(problem.linear);
  // Gate and up meet in one kernel.
  if (is_gated(problem) && parts.size() > 1) return false;
  return std::ranges::all_of(parts, [&](const auto& places) {
    const CudaProductProblem part = problem_of(problem, places);
    return has_codes(part) ? BulkCodes::shape(part, m, caps).has_value() : BulkRows::shape(part, m, caps).has_value();
  });
}

std::vector<CompileUnit> FewRows::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (std::int64_t m = 1; m <= most_rows(problem); ++m) {
    if (!supports(problem, m, caps)) continue;
    for (const auto& places : cut(problem.linear)) {
      const CudaProductProblem part = problem_of(problem, places);
      std::ranges::copy(has_codes(part) ? BulkCodes::units(part, *BulkCodes::shape(part, m, caps), caps)
                                        : BulkRows::units(part, *BulkRows::shape(part, m, caps), caps),
                        std::back_inserter(units));
    }
  }
  return units;
}

std::size_t FewRows::scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::size_t bytes = 0;
  for (const auto& places : cut(problem.linear)) {
    const CudaProductProblem part = problem_of(problem, places);
    bytes =
        std::max(bytes, has_codes(part) ? BulkCodes::scratch_bytes(part, caps) : BulkRows::scratch_bytes(part, caps));
  }
  return bytes;
}

Status FewRows::prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                        device::cuda::CudaDevice& device) {
  for (auto& places : cut(problem.linear)) {
    const CudaProductProblem own = problem_of(problem, places);
    std::vector<LinearWeight> mine;
    MmaBulkRowsParams params{};
    for (std::size_t i = 0; i < places.size(); ++i) {
      mine.push_back(weights[places[i]]);
      params.weights[i] = device_weight(mine.back());
    }
    params.k = problem.linear.k;
    params.num_weights = own.linear.num_weights;
    params.epsilon = problem.epsilon;
    params.norm_shift = problem.norm_shift;
    params.scale = problem.scale;
    Part part{.places = std::move(places), .rows = {}, .codes = {}};
    if (has_codes(own)) {
      part.codes.emplace();
    } else {
      part.rows.emplace();
    }
    for (std::int64_t m = 1; m <= most_rows(problem); ++m) {
      if (!supports(problem, m, device.caps())) continue;
      if (part.codes) {
        PAGODA_TRY(part.codes->prepare(own, m, *BulkCodes::shape(own, m, device.caps()), mine, device));
      } else {
        PAGODA_TRY(part.rows->prepare(own, m, *BulkRows::shape(own, m, device.caps()), params, device));
      }
    }
    parts_.push_back(std::move(part));
  }
  return Ok{};
}

bool FewRows::norms(std::int64_t m) const {
  return std::ranges::all_of(parts_,
                             [&](const Part& part) { return part.rows ? part.rows->norms(m) : part.codes->norms(m); });
}

bool FewRows::serves(std::int64_t m) const {
  return !parts_.empty() && std::ranges::all_of(parts_, [&](const Part& part) {
    return part.rows ? part.rows->serves(m) : part.codes->serves(m);
  });
}

void FewRows::launch(const CudaProductArgs& args, device::cuda::CudaStream& stream) const {
  for (const Part& part : parts_) {
    CudaProductArgs own = args;
    for (std::size_t i = 0; i < part.places.size(); ++i) {
      own.outputs[i] = args.outputs[part.places[i]];
      own.output_strides[i] = args.output_strides[part.places[i]];
    }
    if (part.rows) {
      part.rows->launch(own, stream);
    } else {
      part.codes->launch(own, stream);
    }
  }
}

std::vector<CompileUnit> Unpack::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const LinearWeightSpec& weight : problem.linear.specs()) {
    if (weight.layout == &kMmaCodesLayout) units.push_back(UnpackCodes::unit(*weight.format, problem.input, caps));
  }
  return units;
}

namespace {

std::int64_t unpacked_bytes(std::int64_t n, std::int64_t k) {
  return round_up<std::int64_t>(mma16_elements(n, k) * 2, 256);
}

}  // namespace

std::size_t Unpack::scratch_bytes(const CudaProductProblem& problem) {
  std::int64_t bytes = 0;
  for (const LinearWeightSpec& weight : problem.linear.specs()) {
    if (weight.layout == &kMmaCodesLayout) bytes += unpacked_bytes(weight.n, problem.linear.k);
  }
  return static_cast<std::size_t>(bytes);
}

Status Unpack::prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                       device::cuda::CudaDevice& device) {
  programmatic_ = programmatic(device.caps());
  for (const LinearWeight& weight : weights) {
    Part part{.weight = weight, .kernel = {}};
    if (weight.layout == &kMmaCodesLayout) {
      part.kernel = PAGODA_TRY(UnpackCodes::load(*weight.format, problem.input, device));
    }
    parts_.push_back(std::move(part));
  }
  return Ok{};
}

bool Unpack::any() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.kernel.has_value(); });
}

void Unpack::launch(std::byte* scratch, MmaRowsWeight (&weights)[kMaxLinearWeights],
                    device::cuda::CudaStream& stream) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (!part.kernel) continue;
    weights[i].data = scratch;
    part.kernel->launch(part.weight.data, part.weight.shape, scratch, programmatic_, stream);
    scratch += unpacked_bytes(part.weight.shape.n, part.weight.shape.k);
  }
}

}  // namespace pagoda::kernels
