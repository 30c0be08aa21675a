// What the program refuses, and how it says so.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <regex>

#include "fixtures/gguf_writer.h"
#include "program.h"
#include "unit/api/tiny_chat_model.h"

namespace pagoda::cli {
namespace {

const std::string kModel = PAGODA_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";

/// One sentence on stderr, nothing on stdout.
void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& word = {}) {
  const Outcome outcome = run(arguments);
  std::string line = outcome.err;
  // What may come before: serve's line that it answers while the model is loaded, and the one that --device auto
  // prints.
  for (const char* before : {"pagoda: http://127.0.0.1:", "pagoda: running on the CPU"}) {
    if (line.starts_with(before)) line = line.substr(line.find('\n') + 1);
  }
  const std::string shown = arguments.empty() ? "" : arguments.back();
  EXPECT_EQ(outcome.code, code) << shown << ": " << outcome.err;
  EXPECT_EQ(outcome.out, "") << shown;
  EXPECT_TRUE(line.starts_with("pagoda: error: ")) << outcome.err;
  EXPECT_EQ(std::ranges::count(line, '\n'), 1) << outcome.err;
  EXPECT_NE(line.find(word), std::string::npos) << outcome.err;
}

constexpr const char* kCommands[] = {"run",     "chat",  "tokenize", "detokenize", "render",  "score",
                                     "inspect", "bench", "serve",    "warm",       "quantize"};

TEST(UsageTest, HelpAndVersionEverywhere) {
  const std::string version = run({"--version"}).out;
  EXPECT_TRUE(version.starts_with("pagoda 0.")) << version;
  const Outcome all = run({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(run({"help"}).out, all.out);
  for (const char* command : kCommands) {
    EXPECT_NE(all.out.find(std::string("\n  ") + command + " "), std::string::npos) << command;
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.out.find("MODEL"), std::string::npos) << command;
    EXPECT_EQ(run({"help", command}).out, help.out);
    EXPECT_EQ(run({command, "--version"}).out, version);
  }
}

TEST(UsageTest, HelpFitsATerminalAndTellsDefaults) {
  for (const char* command : kCommands) {
    const std::string help = run({command, "-h"}).out;
    for (std::size_t at = 0; at < help.size(); at = help.find('\n', at) + 1) {
      EXPECT_LE(help.find('\n', at) - at, 80u) << command << ": " << help.substr(at, 100);
    }
  }
  const std::string serve = run({"serve", "--help"}).out;
  for (const char* value : {"[8080]", "[127.0.0.1]", "[33554432]", "[30]", "[auto]"}) {
    EXPECT_NE(serve.find(value), std::string::npos) << value;
  }
  EXPECT_EQ(serve.find("[]"), std::string::npos);
}

TEST(UsageTest, AMisspelledWordBringsTheOneThatWasMeant) {
  expect_refused({"rnu", "/nowhere.gguf"}, 2, "did you mean run?");
  expect_refused({"--hlep"}, 2, "did you mean --help?");
  expect_refused({"run", "/nowhere.gguf", "hi", "--temprature", "0"}, 2, "did you mean --temperature?");
  expect_refused({"run", "/nowhere.gguf", "hi", "--temprature=0"}, 2, "did you mean --temperature?");
  expect_refused({"run", "/nowhere.gguf", "hi", "--temp", "0"}, 2, "did you mean --template or --temperature?");
  expect_refused({"run", "--jsno"}, 2, "did you mean --json?");  // and not that MODEL is missing
  expect_refused({"serve", "/nowhere.gguf", "--prot", "80"}, 2, "did you mean --port?");
  expect_refused({"run", "/nowhere.gguf", "hi", "--frobnicate"}, 2, "no flag --frobnicate; see pagoda run --help");
  expect_refused({"run", "/nowhere.gguf", "hi", "--top-k"}, 2, "--top-k wants a value");
  expect_refused({"run", "/nowhere.gguf", "two", "words"}, 2, "\"words\": a text of several words wants quotes");
}

// The list of the issue, as it stands there.
TEST(UsageTest, BadInput) {
  const Folder folder;
  const std::string whole = read_file(kModel);
  ASSERT_GT(whole.size(), 1000000u) << "make model brings it";
  fixtures::GgufWriter unknown;
  unknown.set("general.architecture", "frogmouth");
  const std::string text = folder.write("text.gguf", "Once upon a time there was a text.\n");
  const std::string empty = folder.write("empty.gguf", "");
  const std::string cut = folder.write("cut.gguf", whole.substr(0, 3000000));
  const std::string strange = folder.write("strange.gguf", unknown.bytes());
  const std::size_t entries = folder.entries();
  for (const char* command : {"run", "score", "tokenize", "inspect", "bench"}) {
    const auto with = [&](const std::string& model) {
      std::vector<std::string> arguments = {command, model};
      if (command == std::string("run") || command == std::string("tokenize")) arguments.push_back("hello");
      if (command == std::string("score")) arguments.insert(arguments.end(), {"--tokens", "1,2"});
      return arguments;
    };
    expect_refused(with(text), 3, "text.gguf");
    expect_refused(with(empty), 3, "empty.gguf");
    expect_refused(with(folder.file("")), 3);
    expect_refused(with(cut), 3, "cut.gguf");
    expect_refused(with(strange), 3, "frogmouth");
    expect_refused(with(folder.file("missing.gguf")), 3, "missing.gguf");
  }
  EXPECT_EQ(folder.entries(), entries) << "nothing is left behind";
}

TEST(UsageTest, APromptOverTheContext) {
  expect_refused({"run", kModel, "a b c d e f g h i j k l m n o p", "--raw", "--ctx", "10"}, 1, "context of 10");
}

TEST(UsageTest, ArgumentsOutOfRange) {
  const std::vector<std::vector<std::string>> lines = {
      {"--temperature", "-1"},
      {"--temperature", "nan"},
      {"--temperature", "hot"},
      {"--ctx", "0"},
      {"--ctx", "-5"},
      {"--ctx", "1.5"},
      {"--threads", "0"},
      {"--block-size", "12"},
      {"--block-size", "512"},
      {"--repetition-penalty", "0"},
      {"--top-p", "0"},
      {"--top-p", "1.01"},
      {"--min-p", "2"},
      {"--top-k", "-1"},
      {"--max-tokens", "-1"},
      {"--prefill-chunk", "0"},
      {"--device", "tpu"},
      {"--device", "cuda:x"},
      {"--kv-dtype", "q8"},
      {"--cpu", "sse"},
      {"--precision", "low"},
      {"--kv-tokens", "0"},
      {"--seed", "many"},
      {"--seed", "-1"},
      {"--seed", "18446744073709551616"},
      {"--seed", "0x10"},
      {"--stop", ""},
      {"--frobnicate"},
      {"--kv-tokens", "64", "--kv-bytes", "4096"},
      {"--deterministic", "--device", "cpu"},
      {"--tune", "--device", "reference"},
      {"--tune", "--deterministic"},
  };
  for (const auto& flags : lines) {
    // No such file: the arguments are judged before anything is opened.
    std::vector<std::string> arguments = {"run", "/nowhere.gguf", "hello"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    expect_refused(arguments, 2, flags[0]);
  }
}

/// A flag that takes values, of the first command whose help has it.
struct ValueFlag {
  std::string command;
  std::string name;
  std::string type;  ///< "N" whole numbers, "X" others, "S" seconds, "N,..." a list, "FILE" ...
};

std::vector<ValueFlag> flags_of_types(const std::string& types) {
  const std::regex row("\n  (?:-\\w, )?(--[a-z-]+) (" + types + ")\\s");
  std::vector<ValueFlag> flags;
  for (const char* command : kCommands) {
    const std::string help = run({command, "--help"}).out;
    for (auto match = std::sregex_iterator(help.begin(), help.end(), row); match != std::sregex_iterator(); ++match) {
      const std::string name = (*match)[1];
      const bool known = std::ranges::find(flags, name, &ValueFlag::name) != flags.end();
      if (!known) flags.push_back({.command = command, .name = name, .type = (*match)[2]});
    }
  }
  return flags;
}

// Each refusal names the flag, the value, and what it may be.
TEST(UsageTest, NineWrongValuesOfEveryNumericFlag) {
  const std::vector<ValueFlag> flags = flags_of_types("N,\\.\\.\\.|N|X|S");
  EXPECT_GE(flags.size(), 35u) << "help is read wrongly";
  for (const ValueFlag& flag : flags) {
    const bool whole = flag.type.starts_with('N');
    for (const std::string value : {"-1", "nan", "inf", "1e999", "0x10", "ten", "5 ", "", whole ? "1.5" : "1e39"}) {
      std::vector<std::string> arguments = {flag.command, "/nowhere.gguf"};
      if (flag.command == "run" || flag.command == "quantize") arguments.emplace_back("word");
      arguments.insert(arguments.end(), {flag.name, value});
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.code, 2) << flag.command << " " << flag.name << " " << value << ": " << outcome.err;
      EXPECT_TRUE(outcome.err.starts_with("pagoda: error: " + flag.name + ": must be ")) << outcome.err;
      EXPECT_NE(outcome.err.find("not \"" + value + "\""), std::string::npos) << outcome.err;
      const bool range =
          outcome.err.find(" from ") != std::string::npos || outcome.err.find(" at most ") != std::string::npos;
      EXPECT_TRUE(range) << outcome.err;
    }
  }
}

// As an unset variable of a shell makes it: --api-key-file "$KEYS" must not leave the server open.
TEST(UsageTest, NothingInPlaceOfAFileOrAName) {
  const std::vector<ValueFlag> flags = flags_of_types("FILE|DIR|PATH|KEY|NAME|URL|GPU|ORIGIN|ADDRESS|FORMAT");
  EXPECT_GE(flags.size(), 18u) << "help is read wrongly";
  for (const ValueFlag& flag : flags) {
    std::vector<std::string> arguments = {flag.command, "/nowhere.gguf"};
    if (flag.command == "run" || flag.command == "quantize") arguments.emplace_back("word");
    arguments.insert(arguments.end(), {flag.name, ""});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << flag.command << " " << flag.name << ": " << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("pagoda: error: " + flag.name + ": must ")) << outcome.err;
  }
}

TEST(UsageTest, ListsHoldNoGaps) {
  for (const std::string value : {"1,,2", "3,", ",3", "1 2"}) {
    expect_refused({"bench", "/nowhere.gguf", "--depth", value}, 2, "not \"" + value + "\"");
    expect_refused({"score", "/nowhere.gguf", "--tokens", value}, 2, "not \"" + value + "\"");
  }
  expect_refused({"bench", "/nowhere.gguf", "-b", "1,1025"}, 2, "from 1 to 1024");
}

// Float keeps no 1e-300, and 0 would be another thing: these are accepted, as the server does.
TEST(UsageTest, NumbersThatAreAlmostNothing) {
  for (const char* flag : {"--temperature", "--top-p", "--min-p"}) {
    expect_refused({"run", "/nowhere.gguf", "hello", flag, "1e-300"}, 3, "/nowhere.gguf");
  }
  const api::TemporaryFile file(api::tiny_chat_bytes());
  const Outcome outcome = run(
      {"run", file.path(), "hi", "--top-p", "1e-300", "--temperature", "1", "--max-tokens", "3", "--device", "cpu"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

// Such bytes were dropped, or became U+FFFD, before the model saw them.
TEST(UsageTest, TextThatIsNoUtf8) {
  const std::string text = "caf\xE9";
  const Folder folder;
  const std::string file = folder.write("latin1.txt", text);
  expect_refused({"run", "/nowhere.gguf", text}, 2, "PROMPT: must be UTF-8, and is none from offset 3 on");
  expect_refused({"run", "/nowhere.gguf", "hi", "--system", text}, 2, "--system: must be UTF-8");
  expect_refused({"run", "/nowhere.gguf", "hi", "--stop", text}, 2, "--stop: must be UTF-8");
  expect_refused({"chat", "/nowhere.gguf", "--system", text}, 2, "--system: must be UTF-8");
  expect_refused({"tokenize", "/nowhere.gguf", text}, 2, "TEXT: must be UTF-8");
  expect_refused({"run", "/nowhere.gguf", "--prompt-file", file}, 2, file + " is no UTF-8: byte 0xe9 at offset 3");
  expect_refused({"score", "/nowhere.gguf", "--text", file}, 2, file + " is no UTF-8: byte 0xe9 at offset 3");
  for (const std::vector<std::string>& line : {std::vector<std::string>{"run", "/nowhere.gguf", "-"},
                                               {"run", "/nowhere.gguf", "-", "--raw"},
                                               {"tokenize", "/nowhere.gguf", "-"},
                                               {"score", "/nowhere.gguf", "--text", "-"}}) {
    const Outcome outcome = run(line, text + "\n");
    EXPECT_EQ(outcome.code, 2) << line[0];
    EXPECT_EQ(outcome.err, "pagoda: error: standard input is no UTF-8: byte 0xe9 at offset 3\n") << line[0];
  }
  const api::TemporaryFile model(api::tiny_chat_bytes());
  const Outcome said = run({"chat", model.path(), "--device", "cpu", "--max-tokens", "2"}, text + "\nabc\n");
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.err.find("the message is no UTF-8: byte 0xe9 at offset 3"), std::string::npos) << said.err;
}

TEST(UsageTest, ABenchThatDoesNotFit) {
  const api::TemporaryFile file(api::tiny_chat_bytes());  // of a context of 200
  const auto bench = [&](std::vector<std::string> flags, int code, const std::string& word) {
    flags.insert(flags.begin(), {"bench", file.path(), "--device", "cpu", "--samples", "1"});
    expect_refused(flags, code, word);
  };
  bench({"-p", "900"}, 2, "a test of 901 tokens, depth and answer included, is beyond the context of 200");
  // What the device is, is said once where it is chosen by itself, and not at all where nothing comes of it.
  for (const char* prompt : {"900", "150"}) {
    const Outcome outcome = run({"bench", file.path(), "--samples", "1", "-p", prompt, "-n", "0"});
    const std::string chosen = "running on the CPU";
    const std::size_t first = outcome.err.find(chosen);
    if (first == std::string::npos) continue;  // a GPU is there
    EXPECT_EQ(outcome.err.find(chosen, first + 1), std::string::npos) << outcome.err;
  }
  bench({"-p", "64", "-n", "8", "-b", "8", "--kv-tokens", "128"}, 1, "8 sequences of 65 tokens at once need 640");
  const Outcome whole =
      run({"bench", file.path(), "--device", "cpu", "--samples", "1", "-p", "199", "-n", "0", "--json"});
  EXPECT_EQ(whole.code, 0) << whole.err;
}

// The flags that are promised to programs that call this one: they stay.
TEST(UsageTest, PromisedFlagsAreInEveryHelp) {
  const std::vector<std::string> model = {"--ignore-key"};
  const std::vector<std::string> running = {"--device",     "--precision",     "--deterministic", "--threads",
                                            "--ctx",        "--kv-dtype",      "--kv-tokens",     "--kv-bytes",
                                            "--block-size", "--prefill-chunk", "--cpu",           "--ignore-key"};
  const std::vector<std::string> sampling = {
      "--max-tokens",         "--temperature", "--top-k", "--top-p",      "--min-p",
      "--repetition-penalty", "--seed",        "--stop",  "--ignore-eos", "--template"};
  const std::vector<std::string> dummy = {"--dummy-weights", "--format"};
  const std::map<std::string, std::vector<std::vector<std::string>>> promised = {
      {"run", {{"--raw", "--system", "--prompt-file", "--json", "--tokenizer"}, running, sampling, dummy}},
      {"chat", {{"--system", "--server", "--api-key"}, running, sampling}},
      {"tokenize", {{"--special", "--bos"}, model}},
      {"detokenize", {model}},
      {"render", {{"--messages", "--tools", "--template", "--no-generation-prompt"}, model}},
      {"score", {{"--text", "--tokens", "--logits", "--json"}, running}},
      {"inspect", {{"--tensors", "--plan", "--support", "--caps", "--json"}, running, dummy}},
      {"bench", {{"-p,", "-n,", "-d,", "-b,", "--json"}, running, dummy}},
      {"quantize", {{"--format", "--overwrite", "--threads", "--json"}}},
      {"warm", {{"--caps"}, running}},
      {"serve",
       {{"--host", "--port", "--unix-socket", "--tls-cert", "--tls-key", "--api-key", "--api-key-file", "--alias",
         "--max-running", "--max-queued", "--cors-origin", "--drain-timeout", "--config", "--no-page", "--template",
         "--tokenizer"},
        running,
        dummy}},
  };
  ASSERT_EQ(promised.size(), std::size(kCommands));
  for (const auto& [command, lists] : promised) {
    const std::string help = run({command, "--help"}).out;
    for (const std::vector<std::string>& list : lists) {
      for (const std::string& flag : list) {
        const std::size_t at = help.find("\n  " + flag);
        ASSERT_NE(at, std::string::npos) << command << " " << flag;
        const char after = help[at + 3 + flag.size()];
        EXPECT_TRUE(after == ' ' || after == '\n') << command << " " << flag << ": " << help.substr(at, 40);
      }
    }
  }
  const std::string all = run({"--help"}).out;
  for (const char* code : {"0 done", "1 failed at", "2 wrong usage", "3 model or file rejected", "4 device missing"}) {
    EXPECT_NE(all.find(code), std::string::npos) << code;
  }
}

TEST(UsageTest, CommandsAndTheirArguments) {
  expect_refused({}, 2);
  expect_refused({"frobnicate"}, 2);
  expect_refused({"run"}, 2, "MODEL");
  expect_refused({"run", "/nowhere.gguf"}, 2, "prompt");
  expect_refused({"run", "/nowhere.gguf", "hello", "again"}, 2);
  expect_refused({"run", "/nowhere.gguf", "hello", "--stop", "one", "two"}, 2,
                 "two");  // a list takes no more than its own
  expect_refused({"chat", "--server", "http://127.0.0.1:1", "--ctx", "5"}, 2, "--ctx");
  expect_refused({"score", "/nowhere.gguf"}, 2, "--text");
  expect_refused({"score", "/nowhere.gguf", "--tokens", "1,x"}, 2, "--tokens");
  expect_refused({"render", "/nowhere.gguf"}, 2, "--messages");
  expect_refused({"inspect"}, 2, "inspect needs a MODEL, or --support\n");
  expect_refused({"inspect", "--support", "--plan"}, 2, "--plan");
  expect_refused({"inspect", "--support", "--caps", "h200"}, 2, "--caps");
  expect_refused({"inspect", "--support", "--ignore-key", "x"}, 2, "--ignore-key");
  expect_refused({"inspect", kModel, "--plan", "--device", "cpu", "--caps", "h200"}, 2, "the GPU h200 is named");
  expect_refused({"inspect", kModel, "--plan", "--device", "reference", "--caps", "h200"}, 2, "the GPU h200 is named");
  expect_refused({"inspect", kModel, "--device", "cuda", "--caps", "h200"}, 2, "the GPU h200 is named");
  expect_refused({"quantize", "/nowhere.gguf", "out", "--format", "gptq4_g128"}, 2, "packed4_g128 holds the same");
  expect_refused({"quantize", "/nowhere.gguf", "out", "--format", "bnb_nf4"}, 2, "must be one of f32, ");
  expect_refused({"detokenize", "/nowhere.gguf", "[1, 2"}, 2, "JSON list");
  expect_refused({"detokenize", "/nowhere.gguf", "[1.5]"}, 2, "JSON list");
  expect_refused({"detokenize", "/nowhere.gguf", "[-1]"}, 2, "-1");
  expect_refused({"bench", "/nowhere.json", "-n", "4"}, 2, "--dummy-weights");
  expect_refused({"serve"}, 2, "MODEL");
  expect_refused({"serve", "/nowhere.gguf", "--port", "70000"}, 2, "--port");
  expect_refused({"serve", "/nowhere.gguf", "--tls-cert", "c"}, 2, "--tls-key");
  expect_refused({"serve", "/nowhere.gguf", "--unix-socket", "s", "--port", "3"}, 2, "--unix-socket");
  expect_refused({"serve", "/nowhere.gguf", "/other.gguf"}, 2, "/other.gguf");
  expect_refused({"serve", "/nowhere.gguf", "--tokenizer", "t"}, 2, "--dummy-weights");
  expect_refused({"serve", "/nowhere.gguf", "--api-key-file", "/dev/null"}, 2, "/dev/null");
  expect_refused({"serve", "/nowhere.gguf", "--keep-alive-interval", "0"}, 2, "--keep-alive-interval");
  expect_refused({"serve", "/nowhere.gguf", "--header-timeout", "0"}, 2, "of at least 0.1");
  expect_refused({"serve", "", "--port", "0"}, 2, "MODEL: must not be empty");  // as an unset variable makes it
  expect_refused({"serve", "/nowhere.gguf", "--alias", "\xFF"}, 2, "--alias: must be UTF-8");
  expect_refused({"serve", "/nowhere.gguf", "--port", "1", "--port", "2"}, 2, "--port has one value, and several");
  expect_refused({"serve", "/nowhere.gguf", "--config", "/"}, 2, "/");
  expect_refused({"serve", "/nowhere.gguf", "--port", "0"}, 3, "/nowhere.gguf");
  expect_refused({"chat"}, 2, "--server");
  expect_refused({"chat", kModel, "--server", "http://127.0.0.1:1"}, 2, "--server");
  expect_refused({"chat", "--server", "ftp://x"}, 2, "--server");
  expect_refused({"chat", "--server", "http://localhost:99999"}, 2, "--server");
  expect_refused({"chat", "--server", "http://127.0.0.1:1"}, 1, "127.0.0.1:1");
}

TEST(UsageTest, Devices) {
  expect_refused({"run", kModel, "hi", "--device", "cuda:63"}, 4, "the device cuda:63 cannot be used: ");
}

TEST(UsageTest, IdsOutsideTheVocabulary) {
  expect_refused({"detokenize", kModel, "[49152]"}, 2, "49152");
  expect_refused({"score", kModel, "--tokens", "1,49152"}, 2, "49152");
}

TEST(UsageTest, FilesThatCannotBeRead) {
  expect_refused({"run", kModel, "--prompt-file", "/nowhere.txt"}, 3, "/nowhere.txt");
  expect_refused({"score", kModel, "--text", "/nowhere.txt"}, 3, "/nowhere.txt");
  expect_refused({"score", kModel, "--tokens", "1,2", "--logits", "/nowhere/out.npy"}, 1, "/nowhere/out.npy");
}

TEST(UsageTest, ACacheOverTheMachinesMemory) {
  expect_refused({"run", kModel, "hi", "--kv-tokens", "2147483648"}, 1, "memory");
  expect_refused({"run", kModel, "hi", "--kv-bytes", "1099511627776"}, 1, "memory");
}

/// Takes all that is written into a pipe while `stop` is false; returns the number of bytes.
std::size_t drain(const std::string& pipe, const std::atomic<bool>& stop) {
  const int descriptor = open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  std::size_t bytes = 0;
  char buffer[65536];
  for (;;) {
    const bool last = stop;
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got > 0) bytes += static_cast<std::size_t>(got);
    if (got <= 0 && last) break;
    if (got <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  close(descriptor);
  return bytes;
}

// A pipe of our own stands for all that is no file: run as root, a fault here would take /dev/null from everybody.
TEST(UsageTest, LogitsToWhatIsNoFile) {
  const Folder folder;
  constexpr std::size_t kBytes = 128 + 2 * 49152 * 4;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::atomic<bool> stop{false};
  auto drained = std::async(std::launch::async, [&] { return drain(pipe, stop); });
  EXPECT_EQ(run({"score", kModel, "--tokens", "1,2", "--logits", pipe}).code, 0);
  stop = true;
  EXPECT_EQ(drained.get(), kBytes);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe)) << "it is written, not replaced";

  const std::string target = folder.write("target.npy", "\x93NUMPY of before");
  const std::string link = folder.file("link.npy");
  std::filesystem::create_symlink(target, link);
  EXPECT_EQ(run({"score", kModel, "--tokens", "1,2", "--logits", link}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::file_size(target), kBytes);

  expect_refused({"score", kModel, "--tokens", "1,2", "--logits", folder.file("")}, 1, "directory");
  EXPECT_EQ(folder.entries(), 3u) << "nothing is left behind";
}

TEST(UsageTest, LogitsToAFullDevice) {
  const Folder folder;
  const std::string full = folder.file("full");  // our own, as above
  if (mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0 || access(full.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "devices cannot be made here";
  }
  expect_refused({"score", kModel, "--tokens", "1,2", "--logits", full}, 1, "in full: No space left on device");
}

TEST(UsageTest, LogitsReplaceNothingButLogits) {
  const Folder folder;
  const std::string model = folder.write("m.gguf", api::tiny_chat_bytes({}));
  const std::string text = folder.write("t.txt", "ab");
  const std::string link = folder.file("l.gguf");
  std::filesystem::create_symlink(model, link);
  const std::size_t entries = folder.entries();
  for (const std::string& file : {model, link, text}) {
    const std::string before = read_file(file);
    expect_refused({"score", model, "--text", text, "--logits", file}, 2, "is no .npy file: it is not replaced");
    EXPECT_EQ(read_file(file), before) << file;
  }
  EXPECT_EQ(folder.entries(), entries) << "nothing is left behind";
  const std::string out = folder.write("o.npy", "");
  for (int i = 0; i < 2; ++i) {  // an empty file, then the one of before
    const Outcome outcome = run({"score", model, "--text", text, "--logits", out});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(read_file(out).starts_with("\x93NUMPY"));
  }
}

TEST(UsageTest, OutputThatCannotBeWritten) {
  const auto shell = [](const std::string& line) {
    const std::string errors = "/tmp/pagoda_cli_" + std::to_string(getpid()) + ".err";
    const int status = std::system((PAGODA_PROGRAM " " + line + " 2>" + errors).c_str());
    const std::string text = read_file(errors);
    std::filesystem::remove(errors);
    EXPECT_NE(text.find("pagoda: error: standard output cannot be written\n"), std::string::npos) << line << text;
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(shell("run " + kModel + " hi --ignore-eos >/dev/full"), 1) << "and it ends before the context does";
  EXPECT_EQ(shell("bench " + kModel + " -p 3 -n 1 --samples 1 >/dev/full"), 1);
  EXPECT_EQ(shell("--help >/dev/full"), 1);
  EXPECT_EQ(shell("run --version >/dev/full"), 1);
  // A closed descriptor is not taken by the first file that is opened.
  const Folder folder;
  EXPECT_EQ(shell("score " + kModel + " --tokens 1,2 --logits " + folder.file("o.npy") + " >&-"), 1);
  EXPECT_EQ(std::filesystem::file_size(folder.file("o.npy")), 128u + 2 * 49152 * 4);
}

TEST(UsageTest, AModelWithoutATemplate) {
  const api::TemporaryFile file(api::tiny_chat_bytes({.chat_template = ""}));
  for (const char* flag : {"--raw", "--template"}) {
    expect_refused({"run", file.path(), "hi"}, 1, flag);
    expect_refused({"chat", file.path()}, 1, flag);
  }
  EXPECT_EQ(run({"run", file.path(), "hi", "--raw", "--max-tokens", "3"}).code, 0);
}

TEST(UsageTest, AnErrorInAConversationIsOneLine) {
  const Folder folder;
  const std::string lines = folder.write("l.jinja", "{{ raise_exception('one\\ntwo') }}");
  const Outcome outcome = run({"chat", kModel, "--template", lines}, "hello\n");
  EXPECT_NE(outcome.err.find("one two\n"), std::string::npos) << outcome.err;
}

TEST(UsageTest, TemplatesThatFail) {
  const Folder folder;
  const std::string raising = folder.write("t.jinja", "{{ raise_exception('only cats may ask') }}");
  expect_refused({"run", kModel, "hi", "--template", raising}, 1, "only cats may ask");
  const std::string lines = folder.write("l.jinja", "{{ raise_exception('one\\ntwo') }}");
  expect_refused({"run", kModel, "hi", "--template", lines}, 1, "one two");
  const std::string messages = folder.write("m.json", "{not json");
  expect_refused({"render", kModel, "--messages", messages}, 2);
  const std::string list = folder.write("list.json", "[]");
  for (const char* no_list : {"{}", "3", "\"hello\""}) {
    const std::string file = folder.write("n.json", no_list);
    expect_refused({"render", kModel, "--messages", file}, 2, "messages: not a JSON list");
    expect_refused({"render", kModel, "--messages", list, "--tools", file}, 2, "tools: not a JSON list");
  }
}

}  // namespace
}  // namespace pagoda::cli
