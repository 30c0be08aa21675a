#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_product_parts.h"

namespace pagoda::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::array<std::int64_t, 2> kBlockTokens = {64, 128};  // few rows waste less of the small one
constexpr std::int64_t kMostStages = 4;
constexpr std::int64_t kStaticShared = 1024;

std::int64_t stages_for(std::int64_t block_tokens, const device::DeviceCaps& caps) {
  std::int64_t stages = kMostStages;
  while (stages > 2 && mma_tiles_shared_bytes(block_tokens, stages) + kStaticShared > caps.gpu.shared_bytes_per_block) {
    --stages;
  }
  return stages;
}

CompileUnit unit_of(const CudaProductProblem& problem, std::int64_t block_tokens, const device::DeviceCaps& caps) {
  return cuda_unit(caps, "linear/cuda_mma_tiles.cu",
                   {define("BLOCK_TOKENS", block_tokens), define("STAGES", stages_for(block_tokens, caps)),
                    define("EPILOGUE", problem.epilogue)});
}

}  // namespace

std::vector<CompileUnit> Tiles::units(const CudaProductProblem& problem, const device::DeviceCaps& caps) {
  std::vector<CompileUnit> units;
  for (const std::int64_t tokens : kBlockTokens) units.push_back(unit_of(problem, tokens, caps));
  return units;
}

Status Tiles::prepare(const CudaProductProblem& problem, device::cuda::CudaDevice& device) {
  for (std::size_t i = 0; i < kBlockTokens.size(); ++i) {
    Size& size = sizes_[i];
    size.block_tokens = kBlockTokens[i];
    size.kernel =
        PAGODA_TRY(device.kernel<MmaTilesParams>(unit_of(problem, kBlockTokens[i], device.caps()), "mma_tiles"));
    size.shared_bytes =
        static_cast<std::uint32_t>(mma_tiles_shared_bytes(kBlockTokens[i], stages_for(kBlockTokens[i], device.caps())));
    size.kernel.allow_shared_bytes(size.shared_bytes);
  }
  tiles_ = row_tiles(problem);
  block_tiles_ = kMmaTilesBlockTiles / (is_gated(problem) ? 2 : 1);
  k_ = problem.linear.k;
  num_weights_ = problem.linear.num_weights;
  scale_ = problem.scale;
  programmatic_ = programmatic(device.caps());
  return Ok{};
}

void Tiles::launch(const CudaProductArgs& args, const MmaRowsWeight (&weights)[kMaxLinearWeights],
                   device::cuda::CudaStream& stream) const {
  const Size& size = args.m <= sizes_[0].block_tokens ? sizes_[0] : sizes_[1];
  MmaTilesParams params{};
  std::copy(std::begin(weights), std::end(weights), std::begin(params.weights));
  set_outputs(params.weights, args);
  params.input = args.input;
  params.input_stride = args.input_stride;
  params.m = args.m;
  params.k = k_;
  params.num_weights = num_weights_;
  params.splits = 1;
  params.scale = scale_;
  size.kernel.launch(
      stream,
      {.grid = {.x = grid_size(ceil_div(args.m, size.block_tokens)), .y = grid_size(ceil_div(tiles_, block_tiles_))},
       .block = {.x = kThreads},
       .shared_bytes = size.shared_bytes,
       .programmatic = programmatic_},
      params);
}

}  // namespace pagoda::kernels
