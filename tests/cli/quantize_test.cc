// pagoda quantize, as a user sees it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"
#include "unit/api/tiny_chat_model.h"

namespace pagoda::cli {
namespace {

const std::string kModel = PAGODA_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";

TEST(QuantizeTest, WritesAModelThatAnswers) {
  const Folder folder;
  const std::string out = folder.file("small.gguf");
  const Outcome outcome = run({"quantize", kModel, out, "--format", "q4_0"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("is quantised already (q4_1)"), std::string::npos) << outcome.err;
  for (const char* word : {"rms error", "token_embd.weight", "\n29 ", "from 96.6 MB as q4_1"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in\n" << outcome.out;
  }
  EXPECT_EQ(folder.entries(), 1u);
  const Outcome answer = run({"run", out, "Hello", "--max-tokens", "3", "--device", "cpu", "--ctx", "99", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(nlohmann::json::parse(answer.out)["completion_tokens"], 3);
  const Outcome again = run({"quantize", out, out, "--format", "q8_0"});
  EXPECT_EQ(again.code, 2);
}

TEST(QuantizeTest, Refusals) {
  const Folder folder;
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& word) {
    arguments.insert(arguments.begin(), "quantize");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("pagoda: error: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
  };
  const std::string old = folder.write("old", "precious");
  refused({kModel, folder.file("a")}, 2, "--format");
  refused({kModel, folder.file("a"), "--format", "q9_9"}, 2, "q4_k_m");
  refused({kModel, old, "--format", "q8_0"}, 2, "--overwrite");
  refused({folder.file("none.gguf"), folder.file("a"), "--format", "q8_0"}, 3, "none.gguf");
  refused({kModel, folder.file("none/a"), "--format", "q8_0"}, 1, "is no directory");
  const api::TemporaryFile narrow(api::tiny_chat_bytes());
  refused({narrow.path(), folder.file("a"), "--format", "q4_k"}, 2, "q4_k can hold the rows of none of the ");
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused({kModel, pipe, "--format", "q8_0", "--overwrite"}, 2, "a pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::filesystem::remove(pipe);
  EXPECT_EQ(read_file(old), "precious");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(QuantizeTest, AFolderThatHoldsTheInputStays) {
  const Folder folder;
  const std::string in = folder.file("model.gguf");
  std::filesystem::copy_file(kModel, in);
  folder.write("config.json", "{}");
  const std::string out = std::filesystem::path(in).parent_path();
  const Outcome outcome = run({"quantize", in, out, "--format", "fp8_e4m3", "--overwrite"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("holds the input"), std::string::npos) << outcome.err;
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(QuantizeTest, SignalsLeaveNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Folder folder;
    Program program({"quantize", kModel, folder.file("a"), "--format", "iq4_xs", "--threads", "1"});
    for (int i = 0; i < 2000 && folder.entries() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_EQ(folder.entries(), 1u);
    program.interrupt(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("interrupted"), std::string::npos) << outcome.err;
    EXPECT_EQ(folder.entries(), 0u);
  }
}

}  // namespace
}  // namespace pagoda::cli
