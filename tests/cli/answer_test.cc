// The program on the demo model, from prompt to answer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "program.h"

namespace pagoda::cli {
namespace {

using Json = nlohmann::json;

const std::string kModel = PAGODA_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
const std::string kQuestion = "In one sentence: why is the sky blue?";

/// Runs with --json and reads the object; the exit code must be 0.
Json run_json(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.push_back("--json");
  const Outcome outcome = run(std::move(arguments), input);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return Json::parse(outcome.out, nullptr, false);
}

Json greedy(std::vector<std::string> flags) {
  std::vector<std::string> arguments = {"run", kModel, kQuestion, "--temperature", "0", "--max-tokens", "24"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_json(std::move(arguments));
}

TEST(RunTest, PrintsTheFieldsOfTheContract) {
  const Json answer = greedy({});
  for (const char* field : {"model", "device", "prompt_tokens", "cached_tokens", "completion_tokens", "token_ids",
                            "text", "finish_reason", "timings"}) {
    EXPECT_TRUE(answer.contains(field)) << field;
  }
  for (const char* field : {"load_ms", "first_token_ms", "prefill_ms", "prefill_tok_s", "decode_ms", "decode_tok_s"}) {
    EXPECT_GT(answer["timings"].value(field, 0.0), 0) << field;
  }
  EXPECT_EQ(answer["model"], "SmolLM2-135M-Instruct.Q4_1");
  EXPECT_EQ(answer["device"], "cpu");
  EXPECT_EQ(answer["token_ids"].size(), answer["completion_tokens"].get<std::size_t>());
  EXPECT_NE(answer["text"].get<std::string>().find("blue"), std::string::npos) << answer["text"];
}

TEST(RunTest, TheSameIdsTwiceAndForEveryChunkAndThreadCount) {
  const Json expected = greedy({})["token_ids"];
  EXPECT_EQ(greedy({})["token_ids"], expected);
  for (const char* chunk : {"1", "16", "17", "64"}) {
    EXPECT_EQ(greedy({"--prefill-chunk", chunk})["token_ids"], expected) << chunk;
  }
  for (const char* threads : {"1", "2"}) EXPECT_EQ(greedy({"--threads", threads})["token_ids"], expected) << threads;
  EXPECT_EQ(greedy({"--block-size", "64", "--ctx", "500"})["token_ids"], expected);
}

TEST(RunTest, StreamsTextAndALineOfFigures) {
  const Outcome outcome = run({"run", kModel, kQuestion, "--temperature", "0", "--max-tokens", "24"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, greedy({})["text"].get<std::string>() + "\n");
  for (const char* word : {"load ", "first token ", "prefill ", "decode ", "tok/s"}) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
  }
}

TEST(RunTest, ThePromptComesFromArgumentFileOrInput) {
  const Folder folder;
  const Json expected = greedy({})["token_ids"];
  const std::vector<std::string> flags = {"--temperature", "0", "--max-tokens", "24"};
  std::vector<std::string> file = {"run", kModel, "--prompt-file", folder.write("p.txt", kQuestion)};
  file.insert(file.end(), flags.begin(), flags.end());
  EXPECT_EQ(run_json(file)["token_ids"], expected);
  std::vector<std::string> input = {"run", kModel, "-"};
  input.insert(input.end(), flags.begin(), flags.end());
  EXPECT_EQ(run_json(input, kQuestion)["token_ids"], expected);
}

TEST(RunTest, StopTextsSeedsAndLengths) {
  const std::string whole = greedy({})["text"];
  const std::string stop = whole.substr(10, 3);
  const Json stopped = greedy({"--stop", "not in it", "--stop", stop});
  EXPECT_EQ(stopped["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  const Json three = run_json({"run", kModel, kQuestion, "--temperature", "0", "--max-tokens", "3"});
  EXPECT_EQ(three["completion_tokens"], 3);
  EXPECT_EQ(three["finish_reason"], "length");
  const auto drawn = [](const char* seed) {
    return run_json(
        {"run", kModel, "Tell me a story.", "--temperature", "1", "--seed", seed, "--max-tokens", "12"})["token_ids"];
  };
  EXPECT_EQ(drawn("7"), drawn("7"));
  EXPECT_NE(drawn("7"), drawn("8"));
}

TEST(RunTest, CtrlCStopsTheAnswerAndKeepsIt) {
  Program program({"run", kModel, "Write a very long story.", "--ignore-eos", "--temperature", "0"});
  ASSERT_TRUE(program.wait_for_output());
  program.interrupt();
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.back(), '\n');
  EXPECT_NE(outcome.err.find("decode"), std::string::npos) << outcome.err;
}

TEST(TextTest, TokenizeDetokenizeRender) {
  const std::string text = "Hello, <|im_end|> wörld 👋🏽";
  const Outcome ids = run({"tokenize", kModel, text});
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(run({"tokenize", kModel, "-"}, text).out, ids.out);
  EXPECT_EQ(run({"detokenize", kModel, ids.out}).out, text + "\n");
  EXPECT_EQ(run({"detokenize", kModel, "-"}, ids.out).out, text + "\n");
  EXPECT_LT(Json::parse(run({"tokenize", kModel, text, "--special"}).out).size(), Json::parse(ids.out).size());
  EXPECT_EQ(run({"tokenize", kModel, ""}).out, "[]\n");

  const Folder folder;
  const std::string messages = folder.write("m.json", R"([{"role":"user","content":"hi"}])");
  const Outcome prompt = run({"render", kModel, "--messages", messages});
  EXPECT_TRUE(prompt.out.ends_with("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")) << prompt.out;
  const Outcome open = run({"render", kModel, "--messages", messages, "--no-generation-prompt"});
  EXPECT_TRUE(open.out.ends_with("<|im_start|>user\nhi<|im_end|>\n")) << open.out;
  const std::string own = folder.write("t.jinja", "{{ messages[0].content }} {{ tools is defined }}");
  const std::string tools = folder.write("tools.json", "[]");
  EXPECT_EQ(run({"render", kModel, "--messages", messages, "--template", own}).out, "hi False");
  EXPECT_EQ(run({"render", kModel, "--messages", messages, "--template", own, "--tools", tools}).out, "hi True");
}

TEST(RunTest, FiguresOfWhatWasNotDoneAreLeftOut) {
  const Outcome outcome = cli::run({"run", kModel, "hi", "--max-tokens", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("load "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("tok/s"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("first token"), std::string::npos) << outcome.err;
}

TEST(ScoreTest, LogprobsPerplexityAndLogits) {
  const Folder folder;
  const std::string text = folder.write("t.txt", "The quick brown fox jumps over the lazy dog.");
  const Json scored = run_json({"score", kModel, "--text", text});
  const auto tokens = scored["tokens"].get<std::vector<std::int64_t>>();
  const auto logprobs = scored["logprobs"].get<std::vector<double>>();
  ASSERT_EQ(logprobs.size() + 1, tokens.size());
  double sum = 0;
  for (const double logprob : logprobs) {
    EXPECT_LT(logprob, 0);
    sum += logprob;
  }
  EXPECT_NEAR(scored["perplexity"].get<double>(), std::exp(-sum / static_cast<double>(logprobs.size())), 1e-6);

  std::string list;
  for (const std::int64_t token : tokens) list += (list.empty() ? "" : ",") + std::to_string(token);
  const std::string npy = folder.file("logits.npy");
  const Json again = run_json({"score", kModel, "--tokens", list, "--logits", npy});
  EXPECT_EQ(again["tokens"], scored["tokens"]);
  for (std::size_t i = 0; i < logprobs.size(); ++i) EXPECT_NEAR(again["logprobs"][i].get<double>(), logprobs[i], 1e-4);

  const std::string bytes = read_file(npy);
  const std::size_t rows = tokens.size(), cols = 49152;
  ASSERT_TRUE(bytes.starts_with(std::string("\x93NUMPY\x01\x00", 8)));
  EXPECT_NE(bytes.find("'shape': (" + std::to_string(rows) + ", 49152)"), std::string::npos);
  const std::size_t head = 10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ(head % 64, 0u);
  ASSERT_EQ(bytes.size(), head + rows * cols * sizeof(float));
  std::vector<float> row(cols);
  std::memcpy(row.data(), bytes.data() + head, cols * sizeof(float));
  double total = 0;
  for (const float logit : row) total += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(row[static_cast<std::size_t>(tokens[1])] - std::log(total), logprobs[0], 1e-4);
  EXPECT_EQ(folder.entries(), 2u) << "the partial file is gone";
}

TEST(ScoreTest, ATextDoesNotSpeakToTheTerminal) {
  const Folder folder;
  const std::string text = folder.write("t.txt", std::string("a\x1b[31m\0b\n", 9));
  const Outcome outcome = cli::run({"score", kModel, "--text", text});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* shown : {"\\x1b", "\\x00", "\\n"}) {
    EXPECT_NE(outcome.out.find(shown), std::string::npos) << shown << outcome.out;
  }
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
}

TEST(ScoreTest, OneTokenHasNoPerplexity) {
  const Outcome outcome = cli::run({"score", kModel, "--tokens", "1"});
  EXPECT_EQ(outcome.out, "1 tokens: none follows another, and none is scored\n") << outcome.err;
}

// Two runs ended well, and the file had the head of one and rows of the other.
TEST(ScoreTest, TwoAtOnceToOneFile) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "word ";
  const std::string out = folder.file("out.npy");
  Program slow({"score", kModel, "--text", folder.write("t.txt", text), "--logits", out});
  for (int i = 0; i < 20000 && folder.entries() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(folder.entries(), 2u);
  EXPECT_EQ(cli::run({"score", kModel, "--tokens", "1,2", "--logits", out}).code, 0);
  EXPECT_EQ(std::filesystem::file_size(out), 128u + 2 * 49152 * 4);
  slow.interrupt();
  EXPECT_EQ(slow.wait().code, 1) << "it was still writing";
  EXPECT_EQ(std::filesystem::file_size(out), 128u + 2 * 49152 * 4);
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(ScoreTest, CtrlCLeavesNoFile) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word ";
  Program program({"score", kModel, "--text", folder.write("t.txt", text), "--logits", folder.file("out.npy")});
  for (int i = 0; i < 20000 && folder.entries() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(folder.entries(), 2u);
  program.interrupt();
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(InspectTest, SummaryPlanTensorsSupport) {
  const Outcome text = run({"inspect", kModel, "--plan", "--tensors", "--support", "--device", "cpu"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"SmolLM2", "llama", "q4_1", "token_embd.weight", "attention_in", "linear"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word;
  }
  const Json json = run_json({"inspect", kModel, "--plan", "--tensors"});
  EXPECT_EQ(json["layers"], 30);
  EXPECT_EQ(json["tensors"].size(), 272u);
  EXPECT_FALSE(json["plan"].empty());
}

// What runs where is a matter of this program and this machine: it needs no model.
TEST(InspectTest, SupportWithoutAModel) {
  const Outcome text = run({"inspect", "--support"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("support\n")) << text.out;
  EXPECT_TRUE(run({"inspect", kModel, "--support"}).out.ends_with("\n" + text.out));
  const Json json = run_json({"inspect", "--support", "--json"});
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json["support"], run_json({"inspect", kModel, "--support"})["support"]);
}

TEST(BenchTest, OneObjectALine) {
  const Outcome outcome =
      run({"bench", kModel, "-p", "32", "-n", "4", "-d", "0,32", "-b", "1,2", "--samples", "1", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    const Json row = Json::parse(line);
    for (const char* field :
         {"model", "format", "kv_dtype", "precision", "threads", "device", "test", "prompt", "depth", "batch",
          "ms_per_step", "tok_s", "bytes_per_step", "bandwidth_share", "samples"}) {
      EXPECT_TRUE(row.contains(field)) << field;
    }
    EXPECT_EQ(row["format"], "q4_1");
    EXPECT_GT(row["tok_s"].get<double>(), 0);
    ++count;
  }
  EXPECT_EQ(count, 8);
}

TEST(BenchTest, AZeroLeavesATestOut) {
  const Outcome decode = run({"bench", kModel, "-p", "0", "-n", "2", "--samples", "1", "--json"});
  EXPECT_EQ(decode.code, 0) << decode.err;
  EXPECT_EQ(Json::parse(decode.out)["test"], "decode");
  const Outcome prefill = run({"bench", kModel, "-p", "0,8", "-n", "0", "--samples", "1", "--json"});
  EXPECT_EQ(prefill.code, 0) << prefill.err;
  EXPECT_EQ(Json::parse(prefill.out)["prompt"], 8);
}

TEST(ChatTest, AConversationFromInput) {
  const Outcome outcome = run({"chat", kModel, "--temperature", "0", "--max-tokens", "12"},
                              "Say hello.\n/history\n/help\n/nonsense\n/clear\n/history\n/quit\nnever said\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("user: Say hello."), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("assistant: "), std::string::npos);
  EXPECT_NE(outcome.out.find("/quit"), std::string::npos);
  EXPECT_EQ(outcome.out.find("never said"), std::string::npos);
}

TEST(ChatTest, LinesOfWindows) {
  const Outcome outcome = run({"chat", kModel, "--max-tokens", "1"}, "Hi.\r\n\r\n/history\r\n/quit\r\nnever said\r\n");
  EXPECT_NE(outcome.out.find("user: Hi.\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("no such command"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.err.find("never said"), std::string::npos);
}

TEST(ChatTest, AFullContextIsRefusedWithBothNumbersAndTheTalkGoesOn) {
  std::string long_line = "Remember this:";
  for (int i = 0; i < 120; ++i) long_line += " word";
  const Outcome outcome = run({"chat", kModel, "--ctx", "80", "--max-tokens", "4", "--temperature", "0"},
                              "Hi.\n" + long_line + "\n/history\n");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("context of 80"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("user: Hi."), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("Remember"), std::string::npos);
}

TEST(ChatTest, CtrlCStopsTheAnswerOnly) {
  Program program({"chat", kModel, "--ignore-eos", "--temperature", "0"}, "Write a very long story.\n/history\n");
  ASSERT_TRUE(program.wait_for_output());
  program.interrupt();
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("assistant: "), std::string::npos);
}

}  // namespace
}  // namespace pagoda::cli
