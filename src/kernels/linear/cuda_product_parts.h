// The kernels a CudaProduct chooses from, each with its host part: which rows it serves, its units, its launches.
#pragma once

#include <map>
#include <optional>

#include "kernels/gated_activation/cuda_gated_activation.h"
#include "kernels/linear/cuda_codes.h"
#include "kernels/linear/cuda_generic_rows.h"
#include "kernels/linear/cuda_mma_bulk_codes.h"
#include "kernels/linear/cuda_mma_bulk_rows.h"
#include "kernels/linear/cuda_mma_tiles.h"
#include "kernels/linear/cuda_product.h"
#include "kernels/linear/cuda_quantize_e4m3.h"
#include "kernels/linear/cuda_to_mma16.h"
#include "kernels/linear/cuda_wgmma_tiles_plan.h"
#include "kernels/rms_norm/cuda_rms_norm.h"

namespace pagoda::kernels {

inline constexpr std::int64_t kMostRowsInTurn = 16;  ///< more go to tiles

inline bool is_gated(const CudaProductProblem& problem) {
  return problem.epilogue == CudaEpilogue::kSilu || problem.epilogue == CudaEpilogue::kGelu;
}

/// Tiles of 16 rows that blocks take in turn: of all weights, or of gate and up together.
std::int64_t row_tiles(const CudaProductProblem& problem);

/// Whether all weights are e4m3 with a scale for 128 columns, for inputs of e4m3: products of many rows then round x.
bool of_e4m3(const CudaProductProblem& problem);

/// The weights as device code takes them, outputs left open.
MmaRowsWeight device_weight(const LinearWeight& weight);
template <class Weight>
void set_outputs(Weight (&weights)[kMaxLinearWeights], const CudaProductArgs& args) {
  for (std::size_t i = 0; i < kMaxLinearWeights; ++i) {
    weights[i].output = args.outputs[i];
    weights[i].output_stride = args.output_strides[i];
  }
}

/// residual += scale · Σ slices, for products whose slices of k leave sums of their own: by a kernel of its own, or
/// left to the next stage's norm where the arguments allow it.
class SliceSum {
 public:
  static CompileUnit unit(const device::DeviceCaps& caps);
  Status prepare(const CudaProductProblem& problem, device::cuda::CudaDevice& device);
  /// Where the product's slices go.
  static float* place(const CudaProductArgs& args);
  void launch(const CudaProductArgs& args, std::int64_t n, int slices, device::cuda::CudaStream& stream) const;

 private:
  device::cuda::Kernel<CudaRmsNormParams> kernel_;
  float scale_ = 1;
};

/// Where tiles do not divide among blocks, the first ones have one more. These keep more under way, so that all end
/// together: a block's share of the memory's speed is that of its stages under way.
template <class Params>
void set_windows(Params& params, std::int64_t tiles, std::int64_t blocks, std::int64_t window) {
  params.window = static_cast<std::int32_t>(std::min<std::int64_t>(window, params.stages));
  params.long_blocks = static_cast<std::int32_t>(tiles % blocks);
  const std::int64_t rounded = (2 * window * (tiles / blocks + 1) * blocks + tiles) / (2 * tiles);
  params.long_window = static_cast<std::int32_t>(std::clamp<std::int64_t>(rounded, params.window, params.stages));
}

/// A launch for each number of rows of a kernel that may leave slices of k to be added.
template <class Params>
class BulkLaunches {
 public:
  bool norms(std::int64_t m) const { return launches_[static_cast<std::size_t>(m)].norm; }
  bool serves(std::int64_t m) const { return m <= kMostRowsInTurn && launches_[static_cast<std::size_t>(m)].ready; }

  void launch(const CudaProductArgs& args, device::cuda::CudaStream& stream) const {
    const Launch& launch = launches_[static_cast<std::size_t>(args.m)];
    Params params = launch.params;
    params.input = args.input;
    params.norm = args.norm;
    params.input_stride = args.input_stride;
    set_outputs(params.weights, args);
    const std::int64_t n = params.weights[0].n;
    if (params.splits > 1) {
      params.weights[0].output = SliceSum::place(args);
      params.weights[0].output_stride = n;
    }
    launch.kernel.launch(stream, launch.config, params);
    if (params.splits > 1) sum_.launch(args, n, params.splits, stream);
  }

 protected:
  struct Launch {
    bool ready = false, norm = false;
    device::cuda::Kernel<Params> kernel;
    device::cuda::LaunchConfig config;
    Params params{};
  };
  std::array<Launch, kMostRowsInTurn + 1> launches_;  // by rows
  SliceSum sum_;
};

/// cuda_mma_bulk_rows.cu: 1 … 16 rows, compute capability 9.0 on.
class BulkRows : public BulkLaunches<MmaBulkRowsParams> {
 public:
  struct Shape {
    int token_tiles = 1, stage_turns = 16, splits = 1, stages = 0, blocks = 0;
    std::uint32_t shared_bytes = 0;
    bool norm = false;
  };
  /// Nothing where another kernel has to do it.
  static std::optional<Shape> shape(const CudaProductProblem& problem, std::int64_t m, const device::DeviceCaps& caps);
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const Shape& shape,
                                        const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);

  Status prepare(const CudaProductProblem& problem, std::int64_t m, const Shape& shape, MmaBulkRowsParams params,
                 device::cuda::CudaDevice& device);
};

/// The same for weights as mma_codes, all of one coding: cuda_mma_bulk_codes.cu, or cuda_whole_bulk_codes.cu.
class BulkCodes : public BulkLaunches<MmaBulkCodesParams> {
 public:
  struct Shape {
    bool whole = false;  ///< cuda_whole_bulk_codes.cu
    int rows = 0;        ///< of x, at most, where it is that one: 1, 2, 4
    int token_tiles = 1, warps = 16, stage_units = 16, splits = 1, stages = 0, blocks = 0;
    std::int64_t stage_bytes = 0;
    std::uint32_t shared_bytes = 0;
    bool norm = false;
  };
  /// Nothing where another kernel has to do it.
  static std::optional<Shape> shape(const CudaProductProblem& problem, std::int64_t m, const device::DeviceCaps& caps);
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const Shape& shape,
                                        const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);

  Status prepare(const CudaProductProblem& problem, std::int64_t m, const Shape& shape,
                 std::span<const LinearWeight> weights, device::cuda::CudaDevice& device);
};

/// Few rows of a product whose weights lie in fragment order: a launch for the bf16 ones among them, and one for each
/// coding.
class FewRows {
 public:
  /// Whether there is a kernel for that many rows.
  static bool supports(const CudaProductProblem& problem, std::int64_t m, const device::DeviceCaps& caps);
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);

  Status prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                 device::cuda::CudaDevice& device);
  bool norms(std::int64_t m) const;
  bool serves(std::int64_t m) const;
  void launch(const CudaProductArgs& args, device::cuda::CudaStream& stream) const;

 private:
  struct Part {
    std::vector<std::size_t> places;  // of its weights in the product
    std::optional<BulkRows> rows;     // one of the two
    std::optional<BulkCodes> codes;
  };
  std::vector<Part> parts_;
};

/// cuda_wgmma_tiles.cu and cuda_wgmma_columns.cu: any number of rows, compute capability 9.0. Weights as mma16, or all
/// as mma_codes of one coding.
class WgmmaTiles {
 public:
  static bool supports(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  /// `weights` without data if they get it at each launch.
  Status prepare(const CudaProductProblem& problem, const MmaRowsWeight (&weights)[kMaxLinearWeights],
                 device::cuda::CudaDevice& device);
  /// `mapped`: the weights are those of `prepare`. `input_scales`: one a row, where the input is rounded.
  void launch(const CudaProductArgs& args, const MmaRowsWeight (&weights)[kMaxLinearWeights], bool mapped,
              const float* input_scales, device::cuda::CudaStream& stream) const;

 private:
  struct Maps {
    CopyMap weights[kMaxLinearWeights] = {}, scales[kMaxLinearWeights] = {};
  };
  struct Bucket {
    std::int64_t most_rows = 0;
    WgmmaTilesProblem problem;
    WgmmaTilesPlan plan;
    device::cuda::Kernel<WgmmaTilesParams> kernel;
    Maps maps;
  };
  Maps map_weights(const Bucket& bucket, const MmaRowsWeight (&weights)[kMaxLinearWeights]) const;

  const device::cuda::Driver* driver_ = nullptr;
  std::vector<Bucket> buckets_;
  SliceSum sum_;
  bool gated_ = false;
  std::int32_t num_weights_ = 0;
  std::int64_t num_sms_ = 0;
  float scale_ = 1, output_factor_ = 1;
};

/// cuda_mma_tiles.cu: any number of rows, other GPUs.
class Tiles {
 public:
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  Status prepare(const CudaProductProblem& problem, device::cuda::CudaDevice& device);
  /// `weights` as mma16.
  void launch(const CudaProductArgs& args, const MmaRowsWeight (&weights)[kMaxLinearWeights],
              device::cuda::CudaStream& stream) const;

 private:
  struct Size {
    std::int64_t block_tokens = 0;
    std::uint32_t shared_bytes = 0;
    device::cuda::Kernel<MmaTilesParams> kernel;
  };
  std::array<Size, 2> sizes_;
  std::int64_t tiles_ = 0, block_tiles_ = 0, k_ = 0;
  std::int32_t num_weights_ = 0;
  float scale_ = 1;
  bool programmatic_ = false;
};

/// Weights as mma_codes made mma16 in scratch before a product of many rows.
class Unpack {
 public:
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem);
  Status prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                 device::cuda::CudaDevice& device);
  bool any() const;
  /// Replaces the data of weights with codes.
  void launch(std::byte* scratch, MmaRowsWeight (&weights)[kMaxLinearWeights], device::cuda::CudaStream& stream) const;

 private:
  struct Part {
    LinearWeight weight;
    std::optional<UnpackCodes> kernel;  // of weights with codes
  };
  std::vector<Part> parts_;
  bool programmatic_ = false;
};

/// cuda_quantize_e4m3.cu: x as e4m3 with a scale a row in scratch, before products of many rows.
class RoundInput {
 public:
  static CompileUnit unit(const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem);
  Status prepare(const CudaProductProblem& problem, device::cuda::CudaDevice& device);
  /// Makes the input of `args` what it has made of it, and returns the rows' scales.
  const float* launch(CudaProductArgs& args, device::cuda::CudaStream& stream) const;

 private:
  device::cuda::Kernel<QuantizeE4m3Params> kernel_;
  std::int64_t k_ = 0, scale_bytes_ = 0;
};

/// Formats that no kernel here reads as they lie: cuda_generic_rows.cu for few rows, and cuda_to_bf16.cu before tiles.
class Generic {
 public:
  static std::vector<CompileUnit> units(const CudaProductProblem& problem, const device::DeviceCaps& caps);
  static std::size_t scratch_bytes(const CudaProductProblem& problem);
  Status prepare(const CudaProductProblem& problem, std::span<const LinearWeight> weights,
                 device::cuda::CudaDevice& device);
  void launch_rows(const CudaProductArgs& args, device::cuda::CudaStream& stream) const;
  /// Decodes all weights to mma16 in the scratch.
  void decode(const CudaProductArgs& args, MmaRowsWeight (&weights)[kMaxLinearWeights],
              device::cuda::CudaStream& stream) const;

 private:
  struct Part {
    LinearWeight weight;
    device::cuda::Kernel<GenericRowsParams> one, several;
    ToMma16 decode;
  };
  std::vector<Part> parts_;
  device::cuda::Kernel<CudaGatedActivationParams> activate_;
  bool gated_ = false;
  float scale_ = 1;
  bool programmatic_ = false;
};

}  // namespace pagoda::kernels
