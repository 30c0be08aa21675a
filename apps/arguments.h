// The command line as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pagoda/bench.h"
#include "pagoda/library.h"
#include "pagoda/model.h"
#include "pagoda/quantize.h"
#include "pagoda/types.h"
#include "server/server.h"

namespace pagoda::apps {

enum class Command : std::uint8_t {
  kRun,
  kChat,
  kTokenize,
  kDetokenize,
  kRender,
  kScore,
  kInspect,
  kBench,
  kWarm,
  kServe,
  kQuantize
};

/// Every value is inside its range. Only the fields of its command are filled.
struct Arguments {
  Command command = Command::kRun;
  std::string model;
  LibraryOptions library;
  ModelOptions options;
  SamplingParams sampling;
  std::string template_file;  ///< empty: the model's own
  bool json = false;

  std::string prompt;       ///< run: "-" is standard input
  std::string prompt_file;  ///< run
  std::string system;       ///< run, chat
  bool raw = false;         ///< run

  std::string text;               ///< tokenize, detokenize: "-" is standard input
  bool special = false;           ///< tokenize
  bool bos = false;               ///< tokenize
  std::string messages_file;      ///< render
  std::string tools_file;         ///< render
  bool generation_prompt = true;  ///< render

  std::string text_file;             ///< score
  std::vector<std::int32_t> tokens;  ///< score
  std::string logits_file;           ///< score

  bool tensors = false;  ///< inspect
  bool plan = false;     ///< inspect
  std::string caps{};    ///< inspect, warm
  bool support = false;  ///< inspect

  BenchOptions bench;

  std::string server_url;        ///< chat
  server::ServerOptions server;  ///< serve; of chat, the key
  std::string api_key_file;      ///< serve
  std::string config_file;       ///< serve; its flags are among the others already
  bool request_log = true;       ///< serve

  std::string output;  ///< quantize
  QuantizeOptions quantize;
};

/// What to do: a command, or a text to print (help, version).
struct ParsedLine {
  std::optional<Arguments> arguments;
  std::string text;
};

/// Errors are kInvalidArgument: one sentence that names the argument.
Result<ParsedLine> parse_command_line(int argc, char** argv);

}  // namespace pagoda::apps
