// docs/formats.md says what runs where; PAGODA_REWRITE=1 writes it anew.
#include "api/support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "quant/format.h"

namespace pagoda {
namespace {

constexpr const char* kPath = PAGODA_SOURCE_DIR "/docs/formats.md";

/// "gemv, small: a; large: b", or "a" where one kernel serves all.
std::map<std::string, std::string> cells(const device::DeviceCaps& caps, kernels::Precision precision) {
  std::map<std::string, std::string> cells;
  for (const SupportRow& row : api::linear_support(caps, precision)) {
    EXPECT_FALSE(row.candidates.empty()) << row.format << " " << row.operation << " " << row.device;
    const std::string sizes = row.operation.substr(sizeof("linear ") - 1);
    std::string& cell = cells[row.format];
    if (!cell.empty()) cell += "; ";
    cell += sizes == "gemv, small, large" ? row.candidates : sizes + ": " + row.candidates;
  }
  return cells;
}

std::string table() {
  const device::DeviceCaps cpu{device::DeviceKind::kCpu, device::CpuIsa::kAvx512, "a CPU"};
  const auto reference = cells(device::reference_caps(), kernels::Precision::kExact);
  const auto standard = cells(cpu, kernels::Precision::kStandard);
  const auto gpu = cells(device::gpu_caps("h200").value(), kernels::Precision::kStandard);
  std::ostringstream text;
  text
      << "| format | bytes for elements | reference | CPU (AVX-512, standard) | GPU (sm_90) |\n|---|---|---|---|---|\n";
  for (const quant::Format* format : quant::all_formats()) {
    const std::string name(format->name);
    text << "| `" << name << "` | " << format->block_bytes << " for " << format->block_elements << " | "
         << reference.at(name) << " | " << standard.at(name) << " | " << gpu.at(name) << " |\n";
  }
  return text.str();
}

TEST(SupportTable, IsTheOneInTheDocumentation) {
  std::ifstream in(kPath);
  std::ostringstream read;
  read << in.rdbuf();
  const std::string text = read.str();
  const std::size_t begin = text.find("| format |");
  ASSERT_NE(begin, std::string::npos);
  const std::string want = table();
  if (std::getenv("PAGODA_REWRITE") != nullptr) {
    std::ofstream(kPath) << text.substr(0, begin) << want;
    return;
  }
  EXPECT_EQ(text.substr(begin), want) << "PAGODA_REWRITE=1 writes it anew";
}

}  // namespace
}  // namespace pagoda
