// Plans for GPUs that are not here: of every configuration, for every architecture that is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "api/known_kernels.h"
#include "io/dummy_weights.h"
#include "io/json_config.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda/embedded.h"
#include "pagoda/pagoda.h"
#include "quant/format.h"
#include "runtime/cuda_runner.h"

namespace pagoda::api {
namespace {

using device::CompileUnit;
using testing::Contains;

constexpr const char* kGpus[] = {"h200", "a100", "l4", "b200", "rtx5090"};

/// What sizes registers, tiles and unrolling, and modes; never n, k, counts, windows or scales, which are parameters.
const std::set<std::string> kConstants = {
    "BLOCKS",       "BLOCK_TOKENS", "ELEMENT",     "EPILOGUE",      "OUTPUT",      "FORMAT",      "FROM_MMA16",
    "GROUP",        "HEAD_DIM_K",   "HEAD_DIM_V",  "INPUT_BF16",    "INPUT_FLOAT", "INTERLEAVED", "KEYS",
    "KEY_DIM",      "KIND",         "KV_FP8",      "MIN_BLOCKS",    "NORM",        "RELEASE",     "ROW_TILES",
    "SOFTCAP",      "STAGES",       "STAGE_TURNS", "THREADS",       "TOKENS",      "TOKEN_TILES", "TO_MMA16",
    "UPDATE_FLOAT", "VALUE_DIM",    "WARPGROUPS",  "WARPS",         "CLUSTER",     "WEIGHTS",     "LAYOUT",
    "STAGE_UNITS",  "AT_ONCE",      "ORDERED",     "BLOCK_COLUMNS", "ROWS"};

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

/// What `inspect --plan` says of the model's place in that GPU's memory.
std::string fit_of(const Library& library, ModelOptions options, const char* gpu) {
  options.device = "cuda";
  const std::string config = PAGODA_SOURCE_DIR "/configs/Llama-3.1-8B.json";
  const auto shown = inspect(library, config, {.model = options, .plan = true, .caps = gpu});
  if (!shown.ok()) return shown.error().message;
  const auto fact = std::ranges::find(shown->memory, "in all", &Fact::name);
  return fact == shown->memory.end() ? "nothing" : fact->value;
}

TEST(GpuPlans, TellWhatDoesNotFit) {
  const Library library = Library::create({.threads = 1}).value();
  using testing::AllOf;
  using testing::HasSubstr;
  using testing::Not;
  const ModelOptions whole{.dummy_weights = "bf16"};  // 15 GiB and the cache of 131,072 tokens
  EXPECT_THAT(fit_of(library, whole, "h200"), AllOf(HasSubstr("NVIDIA H200 has"), Not(HasSubstr("too little"))));
  EXPECT_THAT(fit_of(library, whole, "l4"), HasSubstr("NVIDIA L4 has 22528.0 MiB: too little; a smaller --ctx"));
  EXPECT_THAT(fit_of(library, {.context = 8192, .dummy_weights = "bf16"}, "l4"), Not(HasSubstr("too little")));
  EXPECT_THAT(fit_of(library, {.context = 64, .dummy_weights = "f32"}, "l4"), HasSubstr("too little, whatever"));
}

// Every format is one for every configuration's weights, on every GPU; a width that its blocks do not divide is refused
// with both numbers.
TEST(GpuPlans, OfEveryConfigurationInEveryFormat) {
  int planned = 0;
  for (const Source& source : sources()) {
    if (source.options.dummy_weights.empty()) continue;
    for (const quant::Format* format : quant::all_formats()) {
      const io::RawConfig config = io::read_json_config(source.path).value();
      const std::string what = source.path + " in " + std::string(format->name);
      const auto tensors = model::dummy_tensors(config, *format, {});
      if (!tensors.ok()) {
        EXPECT_EQ(tensors.error().code, ErrorCode::kFormatUnsupported) << what << ": " << tensors.error().message;
        EXPECT_THAT(tensors.error().message, testing::HasSubstr("no multiple of the")) << what;
        continue;
      }
      const model::ModelDescription described = model::describe_model(config, *tensors, {}).value();
      for (const char* gpu : kGpus) {
        const auto plan = plan_for(described, device::gpu_caps(gpu).value(), source.options, 1);
        ASSERT_TRUE(plan.ok()) << what << " on " << gpu << ": " << plan.error().message;
        ++planned;
      }
    }
  }
  EXPECT_GE(planned, 5 * 4 * 20);
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
                         unit.source == "kernels/linear/cuda_wgmma_columns.cu" ||
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

/// A configuration of one layer with these sizes, in bf16.
std::set<CompileUnit> any_size_units_of(const std::string& architecture, std::int64_t hidden, std::int64_t heads,
                                        std::int64_t kv_heads, std::int64_t head_dim, const device::DeviceCaps& caps) {
  const std::string text = pagoda::format(
      R"({{"architectures": ["{}"], "hidden_size": {}, "intermediate_size": {}, "num_attention_heads": {},)"
      R"( "num_key_value_heads": {}, "head_dim": {}, "num_hidden_layers": 1, "vocab_size": 1031,)"
      R"( "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true}})",
      architecture, hidden, hidden * 2, heads, kv_heads, head_dim);
  const io::RawConfig config = io::parse_json_config(architecture, text).value();
  const io::TensorCatalog tensors = model::dummy_tensors(config, *quant::find_format("bf16"), {}).value();
  const model::ModelDescription described = model::describe_model(config, tensors, {}).value();
  const ModelOptions options{.max_running = 37};
  const model::Plan plan = plan_for(described, caps, options, 1, true).value();
  EXPECT_EQ(plan.layers[0].attention.kernel->name, "cuda_any_dims");
  const auto units = runtime::cuda_runner_units(plan);
  return {units.begin(), units.end()};
}

// Where nothing can be compiled, a model of any sizes needs no other code than a model of any other sizes.
TEST(GpuPlans, SizesThatNoOneKnowsNeedNoCompiler) {
  for (const char* gpu : kGpus) {
    const device::DeviceCaps caps = device::gpu_caps(gpu).value();
    const auto listed = any_size_units(caps).value();
    const std::set<CompileUnit> packed(listed.begin(), listed.end());
    for (const auto& units : {any_size_units_of("LlamaForCausalLM", 1000, 8, 2, 34, caps),
                              any_size_units_of("Qwen3ForCausalLM", 2056, 20, 5, 322, caps),
                              any_size_units_of("MistralForCausalLM", 12280, 96, 8, 512, caps)}) {
      EXPECT_GT(units.size(), 8u);
      for (const CompileUnit& unit : units) {
        EXPECT_TRUE(packed.contains(unit)) << unit.source << " " << testing::PrintToString(unit.defines) << " " << gpu;
      }
    }
    for (const CompileUnit& unit : packed) {
      for (const std::string& define : unit.defines) {
        EXPECT_FALSE(define.starts_with("HEAD_DIM") || define.starts_with("GROUP")) << unit.source << ": " << define;
        EXPECT_TRUE(!define.starts_with("KEY_DIM") || define == "KEY_DIM=0") << unit.source << ": " << define;
      }
    }
  }
}

// A head dim that only the kernel for all of them takes.
TEST(GpuPlans, WideHeadsAreSlowerAndNotRefused) {
  const device::DeviceCaps caps = device::gpu_caps("h200").value();
  kernels::AttentionProblem problem;
  problem.activation = tensor::DType::kBf16;
  problem.num_heads = 12;
  problem.layout = {.dtype = tensor::DType::kBf16, .kv_heads = 4, .order = kernels::KvOrder::kHeads};
  for (const auto& [dims, name] : {std::pair(128, "cuda"), std::pair(256, "cuda"), std::pair(320, "cuda_any_dims"),
                                   std::pair(90, "cuda_any_dims"), std::pair(512, "cuda_any_dims")}) {
    problem.layout.key_dim = problem.layout.value_dim = dims;
    const auto* kernel = kernels::choose(kernels::attention_kernels(), problem, caps);
    ASSERT_NE(kernel, nullptr) << dims;
    EXPECT_EQ(kernel->name, name) << dims;
  }
  problem.layout.key_dim = 514;
  EXPECT_EQ(kernels::choose(kernels::attention_kernels(), problem, caps), nullptr);
}

// Where a checkpoint allows it, and where the GPU has the products; the plan says so.
TEST(GpuPlans, RowsAreRoundedToE4m3ByPermission) {
  const std::string config = std::string(PAGODA_SOURCE_DIR) + "/configs/Llama-3.1-8B.json";
  const auto rounds = [&](const char* gpu, ModelOptions options) {
    options.max_running = 64;
    const DescribedFile described = describe_file(config, options).value();
    const auto units = units_of(described.description, device::gpu_caps(gpu).value(), options, 1).value();
    const auto has = [&](const char* source) {
      return std::ranges::any_of(units, [&](const CompileUnit& unit) { return unit.source == source; });
    };
    const bool found = has("kernels/linear/cuda_quantize_e4m3.cu");
    EXPECT_FALSE(found && has("kernels/linear/cuda_unpack_codes.cu")) << gpu;
    return found;
  };
  EXPECT_TRUE(rounds("h200", {.dummy_weights = "fp8_e4m3", .dummy_head = "bf16"}));
  EXPECT_FALSE(rounds("h200", {.deterministic = true, .dummy_weights = "fp8_e4m3"}));
  EXPECT_FALSE(rounds("h200", {.dummy_weights = "fp8_e5m2"}));
  EXPECT_FALSE(rounds("b200", {.dummy_weights = "fp8_e4m3"}));
  // With scales of blocks too, by other products.
  EXPECT_TRUE(rounds("h200", {.dummy_weights = "fp8_block128"}));
  const auto products = [&](const char* weights) {
    const DescribedFile described = describe_file(config, {.dummy_weights = weights}).value();
    std::set<std::string> kinds;
    const auto units = units_of(described.description, device::gpu_caps("h200").value(), {}, 1).value();
    for (const CompileUnit& unit : units) {
      for (const std::string& define : unit.defines) {
        if (define.starts_with("WEIGHTS=")) kinds.insert(define);
      }
    }
    return kinds;
  };
  EXPECT_THAT(products("fp8_e4m3"), testing::Contains("WEIGHTS=3"));
  EXPECT_THAT(products("fp8_e4m3"), testing::Not(testing::Contains("WEIGHTS=1")));
  EXPECT_THAT(products("fp8_block128"), testing::Contains("WEIGHTS=1"));
  const Library library = Library::create({.threads = 1}).value();
  const auto shown = inspect(library, config,
                             {.model = {.device = "cuda", .dummy_weights = "fp8_e4m3"}, .plan = true, .caps = "h200"});
  ASSERT_TRUE(shown.ok()) << shown.error().message;
  EXPECT_TRUE(std::ranges::any_of(shown->plan, [](const auto& choice) {
    return choice.stage == "ffn_in" && choice.reason.find("rounded to e4m3") != std::string::npos;
  }));
}

// Behind a norm, where the GPU has the products and the format's scales are f16; the plan says so.
TEST(GpuPlans, CodesAreMultipliedInF16BehindNorms) {
  const std::string config = std::string(PAGODA_SOURCE_DIR) + "/configs/Llama-3.1-8B.json";
  const auto in_f16 = [&](const char* gpu, ModelOptions options) {
    options.max_running = 64;
    const DescribedFile described = describe_file(config, options).value();
    const auto units = units_of(described.description, device::gpu_caps(gpu).value(), options, 1).value();
    std::set<std::string> sources;
    for (const CompileUnit& unit : units) {
      const auto is = [&](const char* define) { return std::ranges::find(unit.defines, define) != unit.defines.end(); };
      const bool half = unit.source == "kernels/rms_norm/cuda_rms_norm.cu"
                            ? is("OUTPUT=2")
                            : unit.source.starts_with("kernels/linear") && is("ELEMENT=1");
      if (half) sources.insert(unit.source.substr(unit.source.rfind('/') + 1));
      EXPECT_FALSE(half && is("EPILOGUE=2")) << unit.source << ": what is added to the residual is behind no norm";
    }
    return sources;
  };
  using testing::ElementsAre, testing::IsEmpty;
  EXPECT_THAT(
      in_f16("h200", {.dummy_weights = "q4_0", .dummy_head = "q4_0"}),
      ElementsAre("cuda_mma_bulk_codes.cu", "cuda_rms_norm.cu", "cuda_wgmma_tiles.cu", "cuda_whole_bulk_codes.cu"));
  EXPECT_THAT(in_f16("h200", {.dummy_weights = "q6_k", .dummy_head = "q6_k"}),
              ElementsAre("cuda_mma_bulk_codes.cu", "cuda_rms_norm.cu", "cuda_unpack_codes.cu", "cuda_wgmma_columns.cu",
                          "cuda_wgmma_tiles.cu", "cuda_whole_bulk_codes.cu"));
  EXPECT_THAT(in_f16("h200", {.deterministic = true, .dummy_weights = "q4_0", .dummy_head = "q4_0"}), IsEmpty());
  for (const char* format : {"bf16", "mxfp4", "nvfp4", "affine4_g64"}) {
    EXPECT_THAT(in_f16("h200", {.dummy_weights = format, .dummy_head = format}), IsEmpty()) << format;
  }
  EXPECT_THAT(in_f16("b200", {.dummy_weights = "q4_0", .dummy_head = "q4_0"}), IsEmpty());
  const Library library = Library::create({.threads = 1}).value();
  const auto shown =
      inspect(library, config, {.model = {.device = "cuda", .dummy_weights = "q4_0"}, .plan = true, .caps = "h200"});
  ASSERT_TRUE(shown.ok()) << shown.error().message;
  for (const auto& choice : shown->plan) {
    const bool said = choice.reason.find("in f16") != std::string::npos;
    const bool normed = choice.stage == "attention_in" || choice.stage == "ffn_in" || choice.stage == "head";
    EXPECT_EQ(said, normed) << choice.stage << ": " << choice.reason;
  }
}

}  // namespace
}  // namespace pagoda::api
