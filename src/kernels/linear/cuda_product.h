// Products on CUDA, with what is done to their sums, by the kernel that each number of rows wants. A weight is stored
// once: bf16 as mma16, formats with a coding as mma_codes, any other as its file's rows. All kernels of a product read
// that.
//
//   rows        bf16 (mma16)                   codes (mma_codes, 9.0 on)      any other format
//   1 … 16      mma_bulk_rows (9.0 on)         mma_bulk_codes                 generic_rows
//   more        wgmma_tiles (9.0), mma_tiles   wgmma_tiles (9.0, one coding)  decoded to mma16 in scratch,
//                                              else unpacked in scratch       then as bf16
//
// What is mma16 at 33 … 256 rows may be wgmma_columns instead of wgmma_tiles: their plan says which.
// More rows of e4m3 whose checkpoint lets x be rounded: x as e4m3 in scratch, then wgmma_tiles of e4m3 by e4m3 (9.0).
// x is bf16, and so are weights in registers; behind a norm, whose range is known, both are f16 where all weights are
// codes with scales of f16, whose range is that of f16 (takes_f16): three bits more at the same rate. Scales that are a
// product (q4_k's d · scale) may be up to 1,023 there.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "kernels/linear/linear.h"
#include "kernels/stages/residual_update.h"

namespace pagoda::kernels {

/// The values are those of the units' EPILOGUE.
enum class CudaEpilogue : std::uint8_t {
  kBf16,      ///< rows of bf16
  kFloat,     ///< rows of float
  kResidual,  ///< float rows += scale · sums
  kSilu,      ///< two weights: bf16 rows of silu(first) · second
  kGelu,      ///< the same with GELU (tanh)
};

struct CudaProductProblem {
  LinearProblem linear;
  CudaEpilogue epilogue = CudaEpilogue::kBf16;
  tensor::DType input = tensor::DType::kBf16;  ///< of x, if it comes normed: or kF16, where takes_f16
  bool norm = false;                           ///< float input may come with an RMS norm to be done first, at few rows
  float epsilon = 0;
  float norm_shift = 0;
  float scale = 1;         ///< of kResidual
  float input_factor = 1;  ///< of f16: a power of two, which x is multiplied with and sums are divided by
};

struct CudaProductArgs {
  const void* input = nullptr;                        ///< (m, k) as the problem says; float, if `norm` is given
  const float* norm = nullptr;                        ///< (k) weights; only where norms_itself(m)
  std::int64_t input_stride = 0;                      ///< elements, a multiple of 8
  std::int64_t m = 0;                                 ///< at most linear.max_m
  std::array<void*, kMaxLinearWeights> outputs = {};  ///< one a weight; one in all, if gated
  std::array<std::int64_t, kMaxLinearWeights> output_strides = {};
  std::byte* scratch = nullptr;      ///< scratch_bytes, aligned to 256
  ResidualUpdate* update = nullptr;  ///< of kResidual: where slices of k may leave their sums
};

class CudaProduct {
 public:
  static bool supports(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  /// Whether more rows than kernels of few take are rounded to e4m3.
  static bool rounds_input(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  /// Whether x may be f16 for every number of rows.
  static bool takes_f16(const LinearProblem& problem, const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  /// Of the sums that slices of k leave; part of scratch_bytes.
  static std::size_t slice_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static Result<CudaProduct> prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                                     device::cuda::CudaDevice& device);

  /// Whether a launch of m rows can norm its input itself, faster than a kernel of its own before it.
  bool norms_itself(std::int64_t m) const;

  /// Allocates nothing, can be captured.
  void launch(const CudaProductArgs& args, device::cuda::CudaStream& stream) const;

 private:
  /// Of weights made mma16 in scratch, or of x made e4m3.
  static std::size_t decoded_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);

  struct Prepared;
  std::shared_ptr<const Prepared> prepared_;
};

}  // namespace pagoda::kernels
