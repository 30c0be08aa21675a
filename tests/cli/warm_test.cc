// pagoda warm without a GPU: what it refuses, and how.
#include <gtest/gtest.h>

#include "program.h"

namespace pagoda::cli {
namespace {

const std::string kLlama = PAGODA_SOURCE_DIR "/configs/Llama-3.2-1B.json";

void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& word) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("pagoda: error: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
}

TEST(WarmTest, Refusals) {
  expect_refused({"warm", kLlama, "--caps", "h300"}, 2, "h300");
  expect_refused({"warm", kLlama, "--device", "cpu", "--caps", "h200"}, 2, "cpu");
  expect_refused({"warm", "--caps", "h200", "--format", "q4_k"}, 2, "name it");
  expect_refused({"warm", kLlama, "--caps", "h200", "--format", "q17"}, 2, "q17");
  expect_refused({"warm", kLlama, "--caps", "h200", "--max-running", "0"}, 2, "max-running");
  expect_refused({"warm", "/nowhere/model.gguf", "--caps", "h200"}, 3, "/nowhere/model.gguf");
  expect_refused({"warm", kLlama, "--device", "cuda:99"}, 4, "--caps h200");
  expect_refused({"warm", kLlama, "--caps", "a100", "--kv-dtype", "fp8_e4m3"}, 4, "8.9");
}

TEST(WarmTest, NowhereToKeepKernels) {
  const Folder folder;
  ::setenv("XDG_CACHE_HOME", folder.write("file", "no folder").c_str(), 1);
  expect_refused({"warm", kLlama, "--caps", "h200"}, 1, "kernels cannot be kept");
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace pagoda::cli
