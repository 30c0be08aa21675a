// Every format decoded on the GPU: the bits of the golden files, which are the reference reader's.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "device/cuda/compiler.h"
#include "device/cuda/memory.h"
#include "fixtures/format_kernels.h"
#include "fixtures/quant_golden.h"

namespace pagoda::device::cuda {
namespace {

using fixtures::DecodeParams;

TEST(FormatsOnGpu, DecodeLikeTheReferenceBitForBit) {
  auto driver = Driver::load();
  ASSERT_TRUE(driver.ok()) << driver.error().message;
  auto context = Context::create(*driver, 0);
  ASSERT_TRUE(context.ok()) << context.error().message;
  auto nvrtc = Nvrtc::load();
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
  CudaStream stream(*context);
  MemoryPool pool(*context, 64 << 20);
  int compared = 0;
  for (const fixtures::FormatKernel& kernel : fixtures::format_kernels()) {
    const quant::Format& format = *quant::find_format(kernel.format);
    const auto golden = fixtures::read_quant_golden(format);
    if (golden.num_blocks == 0) continue;  // f32
    const CompileUnit unit{.source = "decode.cu", .defines = {}, .architecture = (*context)->caps().architecture()};
    auto cubin = (*nvrtc)->compile(unit, {"decode.cu", kernel.source}, kernels::embedded_sources());
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    auto module = Module::load(*context, *cubin);
    ASSERT_TRUE(module.ok()) << module.error().message;
    auto decode = Kernel<DecodeParams>::load(*module, "decode");
    ASSERT_TRUE(decode.ok()) << decode.error().message;
    const auto num_bytes = static_cast<std::int64_t>(golden.blocks.size());
    const auto num_values = static_cast<std::int64_t>(golden.bits.size());
    auto blocks = DeviceBuffer<std::byte>::create(pool, stream, num_bytes);
    auto values = DeviceBuffer<float>::create(pool, stream, num_values);
    auto host_blocks = PinnedBuffer<std::byte>::create(*context, num_bytes);
    auto host_values = PinnedBuffer<float>::create(*context, num_values);
    ASSERT_TRUE(blocks.ok() && values.ok() && host_blocks.ok() && host_values.ok());
    std::ranges::copy(golden.blocks, host_blocks->host().begin());
    host_blocks->upload(0, num_bytes, blocks->data(), stream);
    const LaunchConfig config{.grid = {.x = static_cast<std::uint32_t>(golden.num_blocks)},
                              .block = {.x = static_cast<std::uint32_t>(format.block_elements)}};
    decode->launch(stream, config, DecodeParams{blocks->data(), values->data()});
    host_values->download(0, num_values, values->data(), stream);
    EXPECT_EQ(fixtures::first_difference(host_values->host(), golden.bits), -1) << format.name;
    host_values->host()[0] = std::bit_cast<float>(golden.bits[0] ^ 1u);
    EXPECT_EQ(fixtures::first_difference(host_values->host(), golden.bits), 0) << "the comparison is blind";
    ++compared;
  }
  EXPECT_EQ(compared, static_cast<int>(quant::all_formats().size()) - 1);
}

}  // namespace
}  // namespace pagoda::device::cuda
