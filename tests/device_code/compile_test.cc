// The device code of the plans of configs/ and of the demo model compiles: each unit once for each architecture. What
// is compiled is kept in build/kernels, so that a second run compiles only what has changed.
//
// The registers, spills and shared memory of every kernel for compute capability 9.0 stand in
// golden/kernels_sm_90.tsv. To write it again after a change that is meant:
//   PAGODA_REWRITE=1 build/release/bin/test_device_code
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "api/known_kernels.h"
#include "device/cuda/compiler.h"
#include "device_code/cubin_info.h"
#include "kernels/cuda/embedded.h"

namespace pagoda::api {
namespace {

using device::CompileUnit;
using device::cuda::Compiler;
using fixtures::KernelInfo;

constexpr char kTable[] = PAGODA_SOURCE_DIR "/tests/golden/kernels_sm_90.tsv";

ModelOptions options_for(const std::string& path) {
  ModelOptions options{.max_running = 64};
  if (path.ends_with(".json")) options.dummy_weights = "bf16";
  return options;
}

/// The configurations, and the demo model for formats of GGUF.
const std::map<std::string, DescribedFile>& models() {
  static const std::map<std::string, DescribedFile> described = [] {
    std::vector<std::string> paths = {PAGODA_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf"};
    for (const auto& file : std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/configs")) {
      if (file.path().extension() == ".json") paths.push_back(file.path());
    }
    std::map<std::string, DescribedFile> found;
    for (const std::string& path : paths) found.emplace(path, describe_file(path, options_for(path)).value());
    return found;
  }();
  return described;
}

std::set<CompileUnit> units_for(const std::string& gpu) {
  std::set<CompileUnit> units;
  for (const auto& [path, described] : models()) {
    const auto own = units_of(described.description, device::gpu_caps(gpu).value(), options_for(path), 1).value();
    units.insert(own.begin(), own.end());
  }
  // The kernels that no sizes are compiled into; products of that kind are those of deterministic plans.
  const std::vector<CompileUnit> all = any_size_units(device::gpu_caps(gpu).value()).value();
  for (const CompileUnit& unit : all) {
    const auto is = [&](const char* define) { return std::ranges::find(unit.defines, define) != unit.defines.end(); };
    const bool one = is("KEY_DIM=0") && is("INTERLEAVED=0") && is("KV_FP8=0");
    if (unit.source == "kernels/attention/cuda_any_dims.cu" || one) units.insert(unit);
  }
  return units;
}

class DeviceCode : public testing::Test {
 protected:
  void SetUp() override {
    // The pinned one: other versions spend registers in other ways.
    auto nvrtc = device::cuda::Nvrtc::load({PAGODA_SOURCE_DIR "/build/nvrtc/libnvrtc.so.12"});
    if (!nvrtc.ok()) GTEST_SKIP() << "NOT RUN: tools/fetch_nvrtc.sh brings NVRTC";
    compiler_.emplace(
        device::cuda::CompilerOptions{.cache_folder = PAGODA_SOURCE_DIR "/build/kernels",
                                      .sources = kernels::embedded_sources(),
                                      .nvrtc = *std::move(nvrtc),
                                      .line_info = false,
                                      .num_threads = static_cast<int>(std::thread::hardware_concurrency())});
  }

  void compile(const std::set<CompileUnit>& units) {
    const std::vector<CompileUnit> list(units.begin(), units.end());
    const Status compiled = compiler_->compile_all(list);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  }

  std::optional<Compiler> compiler_;
};

TEST_F(DeviceCode, CompilesForEachArchitecture) {
  for (const char* gpu : {"a100", "l4", "b200", "rtx5090"}) {
    const std::set<CompileUnit> units = units_for(gpu);
    EXPECT_GT(units.size(), 30u) << gpu;
    compile(units);
  }
}

/// "source<tab>defines<tab>architecture<tab>kernel"
std::string row_name(const CompileUnit& unit, const std::string& kernel) {
  std::string defines;
  for (const std::string& define : unit.defines) defines += (defines.empty() ? "" : " ") + define;
  return unit.source + "\t" + defines + "\t" + unit.architecture + "\t" + kernel;
}

using Table = std::map<std::string, KernelInfo>;

Table read_table() {
  Table table;
  std::ifstream file(kTable);
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::size_t end = 0;
    for (int column = 0; column < 4; ++column) end = line.find('\t', end) + 1;
    KernelInfo info;
    std::istringstream(line.substr(end)) >> info.registers >> info.local_bytes >> info.shared_bytes;
    table[line.substr(0, end - 1)] = info;
  }
  return table;
}

void write_table(const Table& table) {
  std::ofstream file(kTable);
  file << "source\tdefines\tarchitecture\tkernel\tregisters\tlocal_bytes\tshared_bytes\n";
  for (const auto& [name, info] : table) {
    file << name << '\t' << info.registers << '\t' << info.local_bytes << '\t' << info.shared_bytes << '\n';
  }
}

TEST_F(DeviceCode, SpendsNoMoreThanItDid) {
  const std::set<CompileUnit> units = units_for("h200");
  compile(units);
  Table found;
  for (const CompileUnit& unit : units) {
    const auto kernels = fixtures::kernels_in(compiler_->cubin(unit).value());
    EXPECT_FALSE(kernels.empty()) << unit.source;
    for (const auto& [kernel, info] : kernels) {
      EXPECT_GT(info.registers, 7) << kernel;
      EXPECT_LE(info.registers, 255) << kernel;
      found[row_name(unit, kernel)] = info;
    }
  }
  if (std::getenv("PAGODA_REWRITE") != nullptr) write_table(found);
  const Table table = read_table();
  for (const auto& [name, info] : found) {
    const auto golden = table.find(name);
    if (golden == table.end()) {
      ADD_FAILURE() << name << " is not in the table";
      continue;
    }
    EXPECT_LE(info.registers, golden->second.registers) << name;
    EXPECT_LE(info.local_bytes, golden->second.local_bytes) << name << " spills";
    EXPECT_LE(info.shared_bytes, golden->second.shared_bytes) << name;
  }
  for (const auto& [name, info] : table) EXPECT_TRUE(found.contains(name)) << name << " is in no plan any more";
}

/// What a source's kernels for compute capability 9.0 are fast by. The compiler may put others in an instruction's
/// place.
const std::map<std::string, std::set<std::string>> kWanted = {
    {"kernels/attention/cuda_decode.cu", {"mma", "copy_async"}},
    {"kernels/attention/cuda_prefill_sm90.cu", {"wgmma", "tensor_map_copy"}},
    {"kernels/linear/cuda_mma_bulk_rows.cu", {"mma", "bulk_copy"}},
    {"kernels/linear/cuda_wgmma_columns.cu", {"wgmma", "tensor_map_copy"}},
    {"kernels/linear/cuda_wgmma_tiles.cu", {"wgmma", "tensor_map_copy"}},
    {"kernels/attention/cuda_prefill.cu", {"mma", "ldmatrix", "copy_async"}},
    {"kernels/linear/cuda_mma_tiles.cu", {"mma", "copy_async"}},
};

TEST_F(DeviceCode, HasTheInstructionsThatItIsFastBy) {
  std::set<CompileUnit> units = units_for("h200"), others = units_for("l4");
  units.merge(others);
  std::set<std::string> seen;
  for (const CompileUnit& unit : units) {
    const auto wanted = kWanted.find(unit.source);
    if (wanted == kWanted.end()) continue;
    seen.insert(unit.source);
    for (const auto& [kernel, info] : fixtures::kernels_in(compiler_->cubin(unit).value())) {
      for (const std::string& instruction : wanted->second) {
        EXPECT_TRUE(info.instructions.contains(instruction)) << row_name(unit, kernel) << ": no " << instruction;
      }
    }
  }
  EXPECT_EQ(seen.size(), kWanted.size()) << "a source is in no plan any more";
}

TEST(CubinInfo, WhatIsNoCubinHasNoKernels) {
  EXPECT_TRUE(fixtures::kernels_in({}).empty());
  const std::vector<std::byte> noise(300, std::byte{0x7f});
  EXPECT_TRUE(fixtures::kernels_in(noise).empty());
}

}  // namespace
}  // namespace pagoda::api
