#include "kernels/cuda/launch.h"
#include "kernels/gated_activation/cuda_gated_activation.h"
#include "kernels/linear/cuda_mma16.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

constexpr int kSeveral = 4;  // rows that share a decoded weight
constexpr int kRowWarps = 4;
constexpr int kActivateThreads = 256;

CompileUnit rows_unit(const CudaProductProblem& problem, const quant::Format& format, bool ordered, int tokens,
                      const device::DeviceCaps& caps) {
  const CudaEpilogue epilogue = is_gated(problem) ? CudaEpilogue::kBf16 : problem.epilogue;
  return cuda_unit(caps, "linear/cuda_generic_rows.cu",
                   {format_define(format), define("TOKENS", tokens), "INPUT_BF16=1", define("EPILOGUE", epilogue),
                    define("ORDERED", ordered)});
}

CompileUnit activate_unit(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  return cuda_unit(caps, "gated_activation/cuda_gated_activation.cu",
                   {define("KIND", problem.epilogue == CudaEpilogue::kGelu ? 1 : 0), "INPUT_FLOAT=0",
                    define("THREADS", kActivateThreads)});
}

/// Whether there are rows enough that weights are decoded before the product.
bool decodes(const CudaProductProblem& problem) {
  return problem.linear.max_m > kMostRowsInTurn || problem.linear.deterministic;
}

/// The second half of LinearWeight::order.
const std::int32_t* place_of(const LinearWeight& weight) {
  return weight.order == nullptr ? nullptr : weight.order + weight.shape.k;
}

std::int64_t decoded_bytes(const LinearWeightSpec& weight, std::int64_t k) {
  return round_up<std::int64_t>(mma16_elements(weight.n, k) * 2, 256);
}

}  // namespace

std::vector<CompileUnit> Generic::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const LinearWeightSpec& weight : problem.linear.specs()) {
    units.push_back(rows_unit(problem, *weight.format, weight.ordered, 1, caps));
    units.push_back(rows_unit(problem, *weight.format, weight.ordered, kSeveral, caps));
    if (decodes(problem)) units.push_back(ToMma16::unit(*weight.format, caps));
  }
  if (is_gated(problem)) units.push_back(activate_unit(problem, caps));
  return units;
}

std::size_t Generic::scratch_bytes(const CudaProductProblem& problem) {
  std::int64_t decoded = 0;
  for (const LinearWeightSpec& weight : problem.linear.specs()) decoded += decoded_bytes(weight, problem.linear.k);
  const std::int64_t few = std::min(problem.linear.max_m, kMostRowsInTurn);
  const std::int64_t gate = is_gated(problem) ? 2 * few * problem.linear.weights[0].n * 2 : 0;
  return static_cast<std::size_t>(decodes(problem) ? std::max(decoded, gate) : gate);
}

Status Generic::prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                        device::cuda::CudaDevice& device) {
  gated_ = is_gated(problem);
  scale_ = problem.scale;
  programmatic_ = programmatic(device.caps());
  for (const LinearWeight& weight : weights) {
    Part part{.weight = weight, .one = {}, .several = {}, .decode = {}};
    const bool ordered = weight.order != nullptr;
    part.one = PAGODA_TRY(device.kernel<GenericRowsParams>(
        rows_unit(problem, *weight.format, ordered, 1, device.caps()), "generic_rows"));
    part.several = PAGODA_TRY(device.kernel<GenericRowsParams>(
        rows_unit(problem, *weight.format, ordered, kSeveral, device.caps()), "generic_rows"));
    if (decodes(problem)) part.decode = PAGODA_TRY(ToMma16::load(*weight.format, device));
    parts_.push_back(std::move(part));
  }
  if (is_gated(problem)) {
    activate_ =
        PAGODA_TRY(device.kernel<CudaGatedActivationParams>(activate_unit(problem, device.caps()), "gated_activation"));
  }
  return Ok{};
}

void Generic::launch_rows(const CudaProductArgs& args, device::cuda::CudaStream& stream) const {
  const std::int64_t width = parts_[0].weight.shape.n;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const LinearWeight& weight = parts_[i].weight;
    void* const between = args.scratch + static_cast<std::int64_t>(i) * args.m * width * 2;
    const GenericRowsParams params{.weight = weight.data,
                                   .bias = weight.bias,
                                   .place = place_of(weight),
                                   .input = args.input,
                                   .output = gated_ ? between : args.outputs[i],
                                   .row_bytes = weight.format->row_bytes(weight.shape.k),
                                   .input_stride = args.input_stride,
                                   .output_stride = gated_ ? width : args.output_strides[i],
                                   .n = weight.shape.n,
                                   .k = weight.shape.k,
                                   .m = args.m,
                                   .scale = scale_};
    const auto& kernel = args.m == 1 ? parts_[i].one : parts_[i].several;
    kernel.launch(stream,
                  {.grid = {.x = grid_size(ceil_div<std::int64_t>(weight.shape.n, kRowWarps))},
                   .block = {.x = kRowWarps * 32},
                   .programmatic = programmatic_},
                  params);
  }
  if (!gated_) return;
  const CudaGatedActivationParams params{.gate = args.scratch,
                                         .up = args.scratch + args.m * width * 2,
                                         .output = args.outputs[0],
                                         .gate_stride = width,
                                         .up_stride = width,
                                         .output_stride = args.output_strides[0],
                                         .rows = args.m,
                                         .width = width,
                                         .limit = 0};
  activate_.launch(
      stream,
      {.grid = {.x = grid_size(ceil_div<std::int64_t>(width, 4 * kActivateThreads)), .y = grid_rows(args.m)},
       .block = {.x = kActivateThreads},
       .programmatic = programmatic_},
      params);
}

void Generic::decode(const CudaProductArgs& args, MmaRowsWeight (&weights)[kMaxLinearWeights],
                     device::cuda::CudaStream& stream) const {
  std::byte* at = args.scratch;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const LinearWeight& weight = parts_[i].weight;
    weights[i].data = at;
    parts_[i].decode.launch(weight.data, weight.shape, place_of(weight), at, programmatic_, stream);
    at += decoded_bytes({.format = weight.format, .layout = nullptr, .n = weight.shape.n}, weight.shape.k);
  }
}

}  // namespace pagoda::kernels
