// Every unit that prefill attention is planned with on sm_90a compiles under bare NVRTC. Needs no GPU; where NVRTC is
// not installed the test says that it did not run.
#include <gtest/gtest.h>

#include "device/cuda/nvrtc.h"
#include "kernels/attention/prefill_sm90_plan.h"
#include "kernels/cuda/embedded.h"

namespace pagoda::kernels {
namespace {

TEST(PrefillSm90, UnitsCompile) {
  auto nvrtc = device::cuda::Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << "NOT RUN: " << nvrtc.error().message;
  std::string text;
  for (const device::EmbeddedSource& source : embedded_sources()) {
    if (source.name == "kernels/attention/cuda_prefill_sm90.cu") text = source.text;
  }
  const std::int64_t shapes[][3] = {{64, 64, 7},   {80, 80, 1},   {96, 96, 3},  {128, 128, 4}, {128, 80, 5},
                                    {192, 128, 1}, {192, 192, 2}, {256, 64, 8}, {256, 256, 2}, {64, 256, 3}};
  for (const auto& [key_dim, value_dim, group] : shapes) {
    for (const bool softcap : {false, true}) {
      const auto plan = plan_prefill_sm90({.heads = 2 * group,
                                           .kv_heads = 2,
                                           .key_dim = key_dim,
                                           .value_dim = value_dim,
                                           .block_size = 16,
                                           .softcap = softcap});
      ASSERT_TRUE(plan);
      const auto cubin = (*nvrtc)->compile(plan->unit, {plan->unit.source, text}, embedded_sources());
      EXPECT_TRUE(cubin.ok()) << (cubin.ok() ? "" : cubin.error().message);
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
