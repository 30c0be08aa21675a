#include "io/module_pattern.h"

#include <gtest/gtest.h>

#include <chrono>

#include "fixtures/temporary_folder.h"
#include "io/json_config.h"
#include "io/quantization.h"

namespace pagoda::io {
namespace {

// What Python 3.11's re.match says of each.
TEST(ModulePattern, MatchesAsPythonDoes) {
  struct Case {
    std::string_view expression, module;
    bool match;
  };
  constexpr Case kCases[] = {
      {".*self_attn.*", "model.layers.13.self_attn.q_proj", true},
      {"model.layers.1", "model.layers.13.mlp", true},  // from the beginning, and not to the end
      {"layers.1", "model.layers.13.mlp", false},
      {"model.layers.1$", "model.layers.13.mlp", false},
      {R"(.*\.(q|k|v)_proj$)", "model.layers.7.self_attn.k_proj", true},
      {R"(.*\.(q|k|v)_proj$)", "model.layers.7.self_attn.o_proj", false},
      {R"(model\.layers\.(?:[0-9]|1[0-3])\.mlp\..*)", "model.layers.14.mlp.up_proj", false},
      {R"((?!.*mlp).*\.(?P<kind>q)_proj)", "model.layers.2.self_attn.q_proj", true},
      {"a|b", "b.up_proj", true},
      {"", "w", true},
  };
  for (const Case& c : kCases) {
    const ModulePattern pattern = ModulePattern::compile(c.expression).value();
    EXPECT_EQ(pattern.matches(c.module).value(), c.match) << c.expression << " " << c.module;
  }
}

// Expressions whose cost doubles with each character of a name end in an error soon.
TEST(ModulePattern, CostsLittleWhateverItSays) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string module = std::string(60, 'a') + "!";
  for (const char* expression : {"(a+)+$", "(a|aa)*$", "(?:a|a?)+[bc]", "((a|ab|aab?)*)*$"}) {
    const Result<bool> found = ModulePattern::compile(expression).value().matches(module);
    ASSERT_FALSE(found.ok()) << expression;
    EXPECT_EQ(found.error().code, ErrorCode::kConfigUnknown);
    EXPECT_NE(found.error().message.find("cannot be told"), std::string::npos) << found.error().message;
  }
  for (const std::string& expression :
       {std::string("((a{999}){999}){999}"), std::string(4097, 'a'), std::string(2000, '('), std::string("a["),
        std::string("*"), std::string("(?<n"), std::string("\\C")}) {
    EXPECT_EQ(ModulePattern::compile(expression).error().code, ErrorCode::kConfigUnknown) << expression;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

Result<Quantization> read(const std::string& groups) {
  const fixtures::TemporaryFolder folder;
  folder.write("config.json",
               R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {)" + groups + "}}}");
  const RawConfig config = PAGODA_TRY(read_json_config(folder.path() + "/config.json"));
  return read_quantization(config, folder.path());
}

TEST(ModulePattern, NamesAndExpressionsComeBeforeClasses) {
  const Quantization both = read(R"("a": {"targets": ["Linear"], "weights": {"num_bits": 8}},
                                    "b": {"targets": ["lm_head", "re:.*\\.down_proj$"], "weights": {"num_bits": 3}})")
                                .value();
  EXPECT_EQ((*both.scheme_of("model.layers.5.mlp.down_proj").value()).bits, 3);
  EXPECT_EQ((*both.scheme_of("lm_head").value()).bits, 3);
  EXPECT_EQ((*both.scheme_of("model.layers.5.mlp.up_proj").value()).bits, 8);
  // Alone, it holds for what it names and no more.
  const Quantization one = read(R"("b": {"targets": ["re:.*\\.down_proj$"], "weights": {"num_bits": 3}})").value();
  EXPECT_EQ(one.scheme_of("model.layers.5.mlp.up_proj").value(), nullptr);
  EXPECT_EQ((*one.scheme_of("model.layers.5.mlp.down_proj").value()).bits, 3);
}

// An expression that cannot be read is refused with its place, not taken for one that names nothing.
TEST(ModulePattern, WrongOnesAreRefusedByName) {
  const auto refused = read(R"("a": {"targets": ["re:(up|down"], "weights": {"num_bits": 8}})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kConfigUnknown);
  EXPECT_NE(refused.error().message.find("quantization_config.config_groups.a.targets"), std::string::npos);
  EXPECT_NE(refused.error().message.find("'(up|down' is no expression"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace pagoda::io
