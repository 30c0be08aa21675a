// The format headers compile under bare NVRTC, for the oldest and the newest architecture that is served. Needs no
// GPU; where NVRTC is not installed the test says that it did not run.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "device/cuda/nvrtc.h"
#include "quant/formats.h"

namespace pagoda::quant {
namespace {

std::string read_source(const std::string& name) {
  std::ifstream file(PAGODA_SOURCE_DIR "/src/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A kernel that decodes blocks of the struct with that name.
std::string kernel_source(const std::vector<std::string>& headers, const std::string& format) {
  std::string source;
  for (const std::string& header : headers) source += "#include \"" + header + "\"\n";
  source += "using F = pagoda::quant::" + format + ";\n";
  source +=
      "extern \"C\" __global__ void decode(const F::Block* blocks, float* out) {\n"
      "  out[blockIdx.x * F::kBlockElements + threadIdx.x] = F::decode(blocks[blockIdx.x], threadIdx.x);\n}\n";
  return source;
}

TEST(Formats, CompileUnderNvrtc) {
  auto nvrtc = device::cuda::Nvrtc::load();
  if (!nvrtc.ok()) GTEST_SKIP() << "NOT RUN: " << nvrtc.error().message;
  std::vector<std::string> headers;
  std::vector<std::string> names = {"base/shared.h", "base/numbers.h"};
  std::vector<std::string> structs;
  for (const char* name : {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k",
                           "q6_k", "iq4_nl", "iq4_xs", "mxfp4"}) {
    headers.push_back("quant/formats/" + std::string(name) + ".h");
    names.push_back(headers.back());
    const std::string text = read_source(headers.back());
    const std::size_t begin = text.find("struct ") + 7;
    structs.push_back(text.substr(begin, text.find(' ', begin) - begin));
  }
  ASSERT_EQ(static_cast<int>(headers.size()), Formats::kCount) << "name the new format here";
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(read_source(name));
  std::vector<device::EmbeddedSource> embedded;
  for (std::size_t i = 0; i < names.size(); ++i) embedded.push_back({names[i], texts[i]});
  for (const char* architecture : {"sm_80", "sm_120"}) {
    for (const std::string& format : structs) {
      const std::string source = kernel_source(headers, format);
      const device::CompileUnit unit{.source = "decode.cu", .defines = {}, .architecture = architecture};
      const auto cubin = (*nvrtc)->compile(unit, {"decode.cu", source}, embedded);
      EXPECT_TRUE(cubin.ok()) << format << ": " << cubin.error().message;
    }
  }
  const device::CompileUnit unit{.source = "decode.cu", .defines = {}, .architecture = "sm_80"};
  EXPECT_FALSE((*nvrtc)->compile(unit, {"decode.cu", kernel_source(headers, "NoSuchFormat")}, embedded).ok());
}

}  // namespace
}  // namespace pagoda::quant
