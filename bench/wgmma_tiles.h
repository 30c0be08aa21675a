// What benches of wgmma_tiles have in common: launches of any shape.
#pragma once

#include "gpu_bench.h"
#include "kernels/linear/cuda_mma_codes.h"
#include "kernels/linear/cuda_wgmma_tiles_plan.h"
#include "kernels/rms_norm/cuda_rms_norm.h"

namespace pagoda::bench {

using kernels::CudaRmsNormParams;
using kernels::WgmmaTilesParams;
using kernels::WgmmaTilesPlan;
using kernels::WgmmaTilesProblem;
using kernels::WgmmaTilesShape;
using kernels::WgmmaTilesWeights;

/// "128x256t2s1c1": rows of weights × rows of x of a block, turns of a stage, slices, blocks of a cluster; of
/// wgmma_columns "columns 160x256s1".
inline std::string short_name(const WgmmaTilesShape& s) {
  if (s.columns()) return pagoda::format("columns {}x{}s{}", s.block_columns, s.block_tokens, s.splits);
  return pagoda::format("{}x{}t{}s{}c{}", s.warpgroups * 64, s.block_tokens, s.stage_turns, s.splits, s.cluster);
}
inline WgmmaTilesShape columns_shape(int tokens, int columns) {
  return {.block_tokens = tokens, .block_columns = columns};
}
inline std::string name_of(const WgmmaTilesShape& s) { return "\"shape\": \"" + short_name(s) + "\""; }

class Products {
 public:
  explicit Products(GpuBench& bench, const WgmmaTilesWeights& weights = kernels::kWgmmaBf16,
                    const quant::Format* format = nullptr, bool half = false)
      : bench_(bench), weights_(weights), format_(format), half_(half) {}

  WgmmaTilesProblem problem(const WgmmaTilesParams& p, int epilogue) const {
    WgmmaTilesProblem problem{.m = p.m,
                              .n = {},
                              .k = p.k,
                              .epilogue = epilogue,
                              .weights = weights_,
                              .format = format_,
                              .half = half_,
                              .may_split = epilogue == 1};
    for (int i = 0; i < p.num_weights; ++i) problem.n[static_cast<std::size_t>(i)] = p.weights[i].n;
    return problem;
  }
  device::CompileUnit unit(const WgmmaTilesShape& shape, int epilogue) const {
    const WgmmaTilesProblem any{.m = 1,
                                .n = {1, 1},
                                .k = 4096,
                                .epilogue = epilogue,
                                .weights = weights_,
                                .format = format_,
                                .half = half_,
                                .may_split = epilogue == 1};
    WgmmaTilesShape whole = shape;
    whole.splits = 1;
    return unit(plan(any, whole));
  }
  /// Input as in `p.input` is set here.
  void launch(const WgmmaTilesShape& shape, int epilogue, const void* input, std::int64_t stride,
              const WgmmaTilesParams& params) {
    WgmmaTilesParams p = params;
    const WgmmaTilesPlan made = plan(problem(p, epilogue), shape);
    p.input = kernels::map_wgmma_tiles_input(bench_.context().driver(), weights_, shape, input, p.m, p.k, stride);
    for (int i = 0; i < p.num_weights; ++i) {
      p.weight_maps[i] = kernels::map_wgmma_tiles_weight(bench_.context().driver(), weights_, shape, epilogue >= 3,
                                                         p.weights[i].data, p.weights[i].n, p.k);
      if (weights_.span_columns > 0) {
        const auto* scales = static_cast<const std::byte*>(p.weights[i].data) +
                             kernels::mma_codes_scales_offset(*format_->coding, p.weights[i].n, p.k);
        p.scale_maps[i] = kernels::map_wgmma_tiles_scales(bench_.context().driver(), weights_, shape, epilogue >= 3,
                                                          scales, p.weights[i].n, p.k);
      }
    }
    p.stages = made.stages;
    p.splits = shape.splits;
    const auto kernel = bench_.kernel<WgmmaTilesParams>(unit(made), made.function);
    kernel.allow_shared_bytes(made.shared_bytes);
    kernel.launch(bench_.stream(),
                  {.grid = {.x = made.blocks},
                   .block = {.x = made.threads},
                   .shared_bytes = made.shared_bytes,
                   .cluster = static_cast<std::uint32_t>(shape.cluster),
                   .programmatic = true},
                  p);
  }
  device::CompileUnit norm_unit() const {
    return bench_.unit("kernels/rms_norm/cuda_rms_norm.cu", {"THREADS=1024", "OUTPUT=0"});
  }
  void launch_norm(const CudaRmsNormParams& p, std::int64_t m) {
    bench_.kernel<CudaRmsNormParams>(norm_unit(), "rms_norm")
        .launch(bench_.stream(),
                {.grid = {.x = static_cast<std::uint32_t>(m)},
                 .block = {.x = 1024},
                 .shared_bytes = static_cast<std::uint32_t>(p.hidden * 4),
                 .programmatic = true},
                p);
  }

  WgmmaTilesPlan plan(const WgmmaTilesProblem& problem, const WgmmaTilesShape& shape) const {
    return kernels::plan_wgmma_tiles(problem, shape, bench_.num_sms(), bench_.context().caps().shared_bytes_per_block);
  }

 private:
  device::CompileUnit unit(const WgmmaTilesPlan& made) const {
    return bench_.unit(std::string("kernels/") + made.source, made.defines, "a");
  }

  GpuBench& bench_;
  WgmmaTilesWeights weights_;
  const quant::Format* format_;
  bool half_;  // 16 bits are f16, not bf16
};

}  // namespace pagoda::bench
