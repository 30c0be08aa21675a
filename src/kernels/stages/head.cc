#include "kernels/stages/head.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/stages/cuda_stages.h"
#include "kernels/stages/linear_chain.h"

namespace pagoda::kernels {
namespace {

using device::DeviceCaps;
using tensor::DType;
using tensor::MatrixView;

constexpr std::int64_t kLogitsPiece = 4096;

struct CapParams {
  MatrixView logits;
  std::int64_t pieces;  // of a row
  double scale, softcap;
};

/// Units are (row, piece of its logits).
template <class T>
void cap(const CapParams& p, device::HostRange range) {
  const T scale = static_cast<T>(p.scale);
  const T softcap = static_cast<T>(p.softcap);
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
    T* row = p.logits.row<T>(unit / p.pieces);
    const std::int64_t begin = unit % p.pieces * kLogitsPiece;
    const std::int64_t end = std::min(begin + kLogitsPiece, p.logits.cols);
    for (std::int64_t i = begin; i < end; ++i) {
      const T scaled = row[i] * scale;
      row[i] = softcap > 0 ? softcap * std::tanh(scaled / softcap) : scaled;
    }
  }
}

bool supports(const HeadProblem& problem, const DeviceCaps& caps) {
  return LinearChain::supports(problem.product, caps) && choose(rms_norm_kernels(), problem.norm, caps) != nullptr;
}

std::size_t scratch_bytes(const HeadProblem& problem, const DeviceCaps& caps) {
  return LinearChain::scratch_bytes(problem.product, caps);
}

struct Chain {
  HeadProblem problem;
  RmsNormStep norm;
  LinearChain product;

  template <class T>
  void launch(const HeadArgs& args, device::Stream& stream) const {
    MatrixView hidden = args.hidden;
    hidden.rows = args.num_wanted;
    gather_rows({.input = args.residual, .output = hidden, .rows = args.wanted}, stream);
    MatrixView logits = args.logits;
    logits.rows = args.num_wanted;
    norm.launch({hidden, hidden}, stream);
    product.launch({.input = hidden, .outputs = {logits}, .scratch = args.scratch}, stream);
    if (problem.softcap == 0 && problem.scale == 1) return;
    const std::int64_t pieces = ceil_div(logits.cols, kLogitsPiece);
    device::host(stream).launch(cap<T>, CapParams{logits, pieces, problem.scale, problem.softcap},
                                args.num_wanted * pieces);
  }
};

Result<HeadStep> prepare(const HeadProblem& problem, const HeadWeights& weights, device::Device& device) {
  Chain chain{.problem = problem, .norm = {}, .product = {}};
  chain.norm = PAGODA_TRY(prepare_first(rms_norm_kernels(), problem.norm, weights.norm, device));
  chain.product = PAGODA_TRY(LinearChain::prepare(problem.product, {&weights.product, 1}, device));
  if (problem.norm.activation == DType::kF64) {
    return HeadStep([chain](const HeadArgs& args, device::Stream& stream) { chain.launch<double>(args, stream); });
  }
  return HeadStep([chain](const HeadArgs& args, device::Stream& stream) { chain.launch<float>(args, stream); });
}

}  // namespace

DType hidden_type(const HeadProblem& problem, const DeviceCaps& caps) {
  return caps.kind == device::DeviceKind::kCuda ? cuda_head_input(problem, caps) : problem.norm.activation;
}

std::span<const HeadKernel> head_kernels() {
  static const std::array kKernels = {
      kCudaHead,
      HeadKernel{"chain", {"chain"}, supports, scratch_bytes, no_units, prepare},
  };
  return kKernels;
}

}  // namespace pagoda::kernels
