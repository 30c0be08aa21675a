#include "kernels/linear/cuda_linear.h"

#include <algorithm>

#include "kernels/linear/cuda_product.h"
#include "kernels/linear/row_tiles.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;

CudaProductProblem product_of(const LinearProblem& problem) {
  return {.linear = problem, .epilogue = CudaEpilogue::kBf16, .norm = false, .epsilon = 0, .norm_shift = 0, .scale = 1};
}

class Step final : public LinearStep {
 public:
  explicit Step(CudaProduct product) : product_(std::move(product)) {}

  void launch(const LinearArgs& args, device::Stream& stream) const override {
    CudaProductArgs product{.input = args.input.data,
                            .norm = nullptr,
                            .input_stride = args.input.stride,
                            .m = args.input.rows,
                            .outputs = {},
                            .output_strides = {},
                            .scratch = args.scratch};
    for (std::size_t i = 0; i < args.outputs.size(); ++i) {
      product.outputs[i] = args.outputs[i].data;
      product.output_strides[i] = args.outputs[i].stride;
    }
    product_.launch(product, device::cuda::cuda(stream));
  }

 private:
  CudaProduct product_;
};

Arithmetic arithmetic(Precision, const quant::Format&) { return {"bf16_mma"}; }

const Layout* fragment_order(const quant::Format& format) {
  return kMma16Layout.supports(format) ? &kMma16Layout : nullptr;
}
const Layout* codes_in_fragment_order(const quant::Format& format) {
  return kMmaCodesLayout.supports(format) ? &kMmaCodesLayout : fragment_order(format);
}
const Layout* file_order(const quant::Format&) { return &kRowsLayout; }

template <const LinearKernel* kernel>
bool supports(const LinearProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::supports(product_of(problem), caps) && layouts_match(problem, *kernel);
}

/// Where there is a code at all: others' candidate is the one before.
bool supports_codes(const LinearProblem& problem, const DeviceCaps& caps) {
  const auto has_codes = [](const LinearWeightSpec& weight) { return weight.layout == &kMmaCodesLayout; };
  return std::ranges::any_of(problem.specs(), has_codes) && supports<&kMmaCodesCudaLinear>(problem, caps);
}

std::size_t scratch_bytes(const LinearProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::scratch_bytes(product_of(problem), caps);
}

std::vector<CompileUnit> units(const LinearProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::units(product_of(problem), caps);
}

Result<std::unique_ptr<LinearStep>> prepare(const LinearProblem& problem, std::span<const LinearWeight> weights,
                                            device::Device& device) {
  return std::unique_ptr<LinearStep>(std::make_unique<Step>(
      PAGODA_TRY(CudaProduct::prepare(product_of(problem), weights, device::cuda::cuda(device)))));
}

bool rounds_input(const LinearProblem& problem, const DeviceCaps& caps) {
  return CudaProduct::rounds_input(product_of(problem), caps);
}

}  // namespace

const LinearKernel kMma16CudaLinear = {.name = "cuda_mma16",
                                       .arithmetic = arithmetic,
                                       .layout = fragment_order,
                                       .supports = supports<&kMma16CudaLinear>,
                                       .scratch_bytes = scratch_bytes,
                                       .units = units,
                                       .prepare = prepare};

const LinearKernel kMmaCodesCudaLinear = {.name = "cuda_mma_codes",
                                          .arithmetic = arithmetic,
                                          .layout = codes_in_fragment_order,
                                          .supports = supports_codes,
                                          .scratch_bytes = scratch_bytes,
                                          .units = units,
                                          .prepare = prepare,
                                          .rounds_input = rounds_input,
                                          .takes_f16 = CudaProduct::takes_f16};

const LinearKernel kRowsCudaLinear = {.name = "cuda_rows",
                                      .arithmetic = arithmetic,
                                      .layout = file_order,
                                      .supports = supports<&kRowsCudaLinear>,
                                      .scratch_bytes = scratch_bytes,
                                      .units = units,
                                      .prepare = prepare};

}  // namespace pagoda::kernels
