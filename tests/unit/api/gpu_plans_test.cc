// Plans for GPUs that are not here: of every configuration, for every architecture that is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "api/known_kernels.h"
#include "kernels/cuda/embedded.h"
#include "pagoda/pagoda.h"

namespace pagoda::api {
namespace {

using device::CompileUnit;
using testing::Contains;

constexpr const char* kGpus[] = {"h200", "a100", "l4", "b200", "rtx5090"};

/// What sizes registers, tiles and unrolling, and modes; never n, k, counts, windows or scales, which are parameters.
const std::set<std::string> kConstants = {
    "BLOCKS",      "BLOCK_TOKENS", "ELEMENT",     "EPILOGUE",   "FLOAT_OUTPUT", "FORMAT",
    "FROM_MMA16",  "GROUP",        "HEAD_DIM_K",  "HEAD_DIM_V", "INPUT_BF16",   "INPUT_FLOAT",
    "INTERLEAVED", "KEYS",         "KEY_DIM",     "KIND",       "KV_FP8",       "MIN_BLOCKS",
    "NORM",        "RELEASE",      "ROW_TILES",   "SOFTCAP",    "STAGES",       "STAGE_TURNS",
    "THREADS",     "TOKENS",       "TOKEN_TILES", "TO_MMA16",   "UPDATE_FLOAT", "VALUE_DIM",
    "WARPGROUPS",  "WARPS",        "CLUSTER",     "WEIGHTS",    "LAYOUT",       "STAGE_UNITS"};

struct Source {
  std::string path;
  ModelOptions options;
};

std::vector<Source> sources() {
  const std::string root = PAGODA_SOURCE_DIR;
  std::vector<Source> found;
  for (const auto& file : std::filesystem::directory_iterator(root + "/configs")) {
    if (file.path().extension() == ".json") found.push_back({file.path(), {.dummy_weights = "bf16"}});
  }
  found.push_back({root + "/models/SmolLM2-135M-Instruct.Q4_1.gguf", {}});
  for (Source& source : found) source.options.max_running = 64;
  EXPECT_GE(found.size(), 5u);
  return found;
}

TEST(GpuPlans, AreShownForGpusThatAreNotHere) {
  const Library library = Library::create({.threads = 1}).value();
  const std::vector<Source> all = sources();
  for (std::size_t i = 0; i < std::size(kGpus); ++i) {
    const char* gpu = kGpus[i];
    Source source = all[i % all.size()];
    source.options.device = "cuda";
    const auto shown = inspect(library, source.path, {.model = source.options, .plan = true, .caps = gpu});
    ASSERT_TRUE(shown.ok()) << gpu << ": " << shown.error().message;
    std::set<std::string> stages;
    for (const auto& choice : shown->plan) {
      stages.insert(choice.stage);
      EXPECT_FALSE(choice.candidate.empty()) << choice.stage;
      EXPECT_FALSE(choice.reason.empty()) << choice.stage;
    }
    for (const char* stage : {"attention_in", "attention", "attention_out", "ffn_in", "ffn_out", "head"}) {
      EXPECT_THAT(stages, Contains(stage)) << gpu;
    }
  }
  const auto unknown = inspect(library, sources().front().path,
                               {.model = {.device = "cuda", .dummy_weights = "bf16"}, .plan = true, .caps = "voodoo2"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("h200, h100, a100"), std::string::npos) << unknown.error().message;
}

TEST(GpuPlans, NameUnitsThatThereAre) {
  std::set<std::string_view> embedded;
  for (const device::EmbeddedSource& source : kernels::embedded_sources()) embedded.insert(source.name);
  for (const Source& source : sources()) {
    const DescribedFile described = describe_file(source.path, source.options).value();
    for (const char* gpu : kGpus) {
      SCOPED_TRACE(source.path + " on " + gpu);
      const device::DeviceCaps caps = device::gpu_caps(gpu).value();
      const model::Plan plan = plan_for(described.description, caps, source.options, 1).value();
      const std::vector<CompileUnit> units = model::units(plan);
      EXPECT_GT(units.size(), 10u);
      EXPECT_EQ(std::set(units.begin(), units.end()).size(), units.size()) << "each unit once";
      for (const CompileUnit& unit : units) {
        EXPECT_TRUE(embedded.contains(unit.source)) << unit.source;
        const bool own = unit.source == "kernels/linear/cuda_wgmma_tiles.cu" ||
                         unit.source == "kernels/attention/cuda_prefill_sm90.cu";
        EXPECT_EQ(unit.architecture, caps.gpu.architecture() + (own ? "a" : "")) << unit.source;
        EXPECT_TRUE(!own || caps.gpu.compute() == 90) << unit.source;
        for (const std::string& define : unit.defines) {
          EXPECT_TRUE(kConstants.contains(define.substr(0, define.find('=')))) << unit.source << ": " << define;
        }
      }
    }
  }
}

// Sizes do not become constants: two models of other widths and lengths share the code of their common head dim.
TEST(GpuPlans, ModelsOfOneHeadDimShareUnits) {
  const device::DeviceCaps caps = device::gpu_caps("h200").value();
  std::vector<std::set<CompileUnit>> all;
  for (const char* name : {"Llama-3.1-8B", "Qwen3-4B"}) {
    const std::string path = PAGODA_SOURCE_DIR "/configs/" + std::string(name) + ".json";
    const ModelOptions options{.max_running = 64, .dummy_weights = "bf16"};
    const DescribedFile described = describe_file(path, options).value();
    const auto units = units_of(described.description, caps, options, 1).value();
    all.emplace_back(units.begin(), units.end());
  }
  std::vector<CompileUnit> only;
  std::ranges::set_difference(all[0], all[1], std::back_inserter(only));
  for (const CompileUnit& unit : only) EXPECT_EQ(unit.source.find("cuda_decode"), std::string::npos) << unit.source;
  EXPECT_LT(only.size(), all[0].size() / 2);
}

}  // namespace
}  // namespace pagoda::api
