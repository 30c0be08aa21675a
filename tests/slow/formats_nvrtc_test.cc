// The format headers compile under bare NVRTC, for the oldest and the newest architecture that is served. Needs no
// GPU; where NVRTC is not installed the test says that it did not run.
#include <gtest/gtest.h>

#include "device/cuda/nvrtc.h"
#include "fixtures/format_kernels.h"
#include "quant/formats.h"

namespace pagoda::quant {
namespace {

TEST(Formats, CompileUnderNvrtc) {
  auto nvrtc = device::cuda::Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << "NOT RUN: " << nvrtc.error().message;
  const auto compiles = [&](const std::string& source, const char* architecture) {
    const device::CompileUnit unit{.source = "decode.cu", .defines = {}, .architecture = architecture};
    const auto cubin = (*nvrtc)->compile(unit, {"decode.cu", source}, kernels::embedded_sources());
    return cubin.ok() ? std::string() : cubin.error().message;
  };
  const auto kernels = fixtures::format_kernels();
  ASSERT_EQ(static_cast<int>(kernels.size()), Formats::kCount);
  for (const fixtures::FormatKernel& kernel : kernels) {
    EXPECT_EQ(compiles(kernel.source, "sm_80"), "") << kernel.format;
    EXPECT_EQ(compiles(kernel.source, "sm_120"), "") << kernel.format;
  }
  EXPECT_NE(compiles("using F = pagoda::quant::NoSuchFormat;", "sm_80"), "");
}

}  // namespace
}  // namespace pagoda::quant
