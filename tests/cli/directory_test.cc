// The program over a Hugging Face directory without a tokenizer, and over a configuration alone.
#include <gtest/gtest.h>

#include "fixtures/hf_model.h"
#include "program.h"

namespace pagoda::cli {
namespace {

class Directory : public testing::Test {
 protected:
  Directory() { fixtures::write_hf_model(folder_, fixtures::read_hf_golden("qwen3_default"), 2); }

  fixtures::TemporaryFolder folder_;
};

TEST_F(Directory, IsInspectedScoredAndMeasuredByIds) {
  const Outcome inspected = run({"inspect", folder_.path(), "--tensors", "--plan", "--device", "cpu"});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("model.layers.2.self_attn.q_norm.weight"), std::string::npos);
  EXPECT_NE(inspected.out.find("safetensors, 2 files"), std::string::npos);
  const Outcome scored = run({"score", folder_.path(), "--tokens", "3,1,4,1,5", "--device", "cpu"});
  EXPECT_EQ(scored.code, 0) << scored.err;
  EXPECT_NE(scored.out.find("5 tokens, perplexity"), std::string::npos) << scored.out;
  const Outcome measured = run({"bench", folder_.path(), "-p", "7", "-n", "3", "--samples", "1", "--device", "cpu"});
  EXPECT_EQ(measured.code, 0) << measured.err;
  EXPECT_NE(measured.out.find("prefill"), std::string::npos);
}

TEST_F(Directory, TextIsRefusedWithWhatIsMissing) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"run", folder_.path(), "hello", "--raw"},
                                                    {"run", folder_.path(), "hello"},
                                                    {"tokenize", folder_.path(), "hello"},
                                                    {"detokenize", folder_.path(), "[3]"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_NE(outcome.err.find("has no tokenizer (tokenizer.json)"), std::string::npos) << outcome.err;
  }
}

TEST_F(Directory, AMissingShardIsNamed) {
  std::filesystem::remove(folder_.path() + "/m-1.safetensors");
  const Outcome outcome = run({"score", folder_.path(), "--tokens", "3,1"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("m-1.safetensors"), std::string::npos) << outcome.err;
}

TEST_F(Directory, UnknownKeysAreRefusedUnlessIgnored) {
  std::string config = fixtures::read_hf_golden("qwen3_default").config;
  config.insert(config.find('{') + 1, "\"query_scale\": 2, ");
  folder_.write("config.json", config);
  const Outcome refused = run({"score", folder_.path(), "--tokens", "3,1"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_NE(refused.err.find("query_scale"), std::string::npos) << refused.err;
  const Outcome ignored = run({"score", folder_.path(), "--tokens", "3,1", "--ignore-key", "query_scale"});
  EXPECT_EQ(ignored.code, 0);
  EXPECT_NE(ignored.err.find("query_scale"), std::string::npos) << ignored.err;  // said with every result
}

TEST_F(Directory, AConfigurationIsMeasuredWithWeightsMadeUp) {
  const std::string config = folder_.path() + "/config.json";
  const Outcome outcome = run({"bench", config, "--dummy-weights", "--format", "f16", "-p", "5", "-n", "2", "--samples",
                               "1", "--json", "--device", "cpu"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"format\":\"f16\""), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\"model\":\"config\""), std::string::npos) << outcome.out;
  EXPECT_EQ(run({"bench", config}).code, 2);
  EXPECT_EQ(run({"bench", config, "--dummy-weights", "-p", "0", "-n", "0"}).code, 2);
  EXPECT_EQ(run({"bench", config, "--format", "f16"}).code, 2);
  EXPECT_EQ(run({"bench", config, "--dummy-weights", "--format", "f17"}).code, 2);
  EXPECT_EQ(run({"bench", config, "--dummy-weights", "--head-format", "f17"}).code, 2);
  EXPECT_EQ(run({"bench", config, "--head-format", "f16"}).code, 2) << "of weights made up alone";
  EXPECT_EQ(run({"inspect", config, "--dummy-weights", "--plan", "--device", "cpu"}).code, 0);
}

}  // namespace
}  // namespace pagoda::cli
