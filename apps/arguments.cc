#include "apps/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "apps/toml_config.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::optional<std::int64_t> whole(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A whole number in [least, most]. CLI11 puts the flag's name in front of the sentence.
CLI::Validator integer(std::int64_t least, std::int64_t most = kMost) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const auto value = whole(text);
        if (value && *value >= least && *value <= most) return {};
        if (most == kMost) return pagoda::format("must be a whole number of at least {}, not \"{}\"", least, text);
        return pagoda::format("must be a whole number from {} to {}, not \"{}\"", least, most, text);
      },
      {});
}

/// A finite number in [least, most]; `open` leaves out `least` itself.
CLI::Validator number(double least, bool open, double most = HUGE_VAL) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool read = error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
        if (read && (open ? value > least : value >= least) && value <= most) return {};
        const std::string range = pagoda::format("{} {}", open ? "over" : "of at least", least);
        if (most == HUGE_VAL) return pagoda::format("must be a number {}, not \"{}\"", range, text);
        return pagoda::format("must be a number {} and at most {}, not \"{}\"", range, most, text);
      },
      {});
}

CLI::Validator seed() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{} && end == text.data() + text.size()) return {};
        return pagoda::format("must be a whole number from 0 to {}, not \"{}\"", UINT64_MAX, text);
      },
      {});
}

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string& text) -> std::string {
        std::string list;
        for (const std::string& word : words) {
          if (text == word) return {};
          list += (list.empty() ? "" : ", ") + word;
        }
        return pagoda::format("must be one of {}, not \"{}\"", list, text);
      },
      {});
}

CLI::Validator device() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "auto" || text == "cpu" || text == "cuda" || text == "reference") return {};
        if (text.starts_with("cuda:") && whole(text.substr(5)).value_or(-1) >= 0) return {};
        return pagoda::format("must be auto, cpu, cuda, cuda:N or reference, not \"{}\"", text);
      },
      {});
}

CLI::Validator power_of_two(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto value = whole(text);
        if (value && *value >= least && *value <= most && (*value & (*value - 1)) == 0) return {};
        return pagoda::format("must be a power of two from {} to {}, not \"{}\"", least, most, text);
      },
      {});
}

CLI::Validator some_text() {
  return CLI::Validator([](std::string& text) -> std::string { return text.empty() ? "must not be empty" : ""; }, {});
}

void add_model(CLI::App& app, Arguments& out, bool required = true) {
  app.add_option("MODEL", out.model, "a GGUF file, or a Hugging Face directory")->required(required);
  app.add_option("--ignore-key", out.options.ignore_keys, "pass over this configuration key of the file")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_running(CLI::App& app, Arguments& out) {
  ModelOptions& options = out.options;
  app.add_option("--device", options.device, "auto, cpu, cuda, cuda:N or reference")->check(device());
  app.add_option_function<std::string>(
         "--precision",
         [&options](const std::string& text) {
           options.precision = text == "high" ? Precision::kHigh : Precision::kStandard;
         },
         "standard or high (CPU)")
      ->check(one_of({"standard", "high"}));
  app.add_flag("--deterministic", options.deterministic, "the same bits in every batch (GPU)");
  app.add_flag("--tune", options.tune, "measure at start which way to launch kernels is faster (GPU)");
  app.add_option("--threads", out.library.threads, "worker threads")->check(integer(1, 1024));
  app.add_option("--cpu", out.library.cpu_isa, "portable, avx2, avx512 or avx512_bf16")
      ->check(one_of({"portable", "avx2", "avx512", "avx512_bf16"}));
  app.add_option("--ctx", options.context, "tokens of a sequence at most, prompt and answer")->check(integer(1));
  app.add_option("--kv-dtype", options.kv_dtype, "auto, bf16, f16 or fp8_e4m3")
      ->check(one_of({"auto", "bf16", "f16", "fp8_e4m3"}));
  auto* tokens = app.add_option("--kv-tokens", options.kv_tokens, "size of the KV cache in tokens")->check(integer(1));
  app.add_option("--kv-bytes", options.kv_bytes, "size of the KV cache in bytes")->check(integer(1))->excludes(tokens);
  app.add_option("--block-size", options.block_size, "tokens of a cache block")->check(power_of_two(8, 256));
  app.add_option("--prefill-chunk", options.prefill_chunk, "prompt tokens of a step at most")->check(integer(1, 65536));
}

/// Weights made up for a config.json.
void add_dummy(CLI::App& app, Arguments& out) {
  std::string& format = out.options.dummy_weights;
  auto* dummy = app.add_flag_callback(
      "--dummy-weights",
      [&format] {
        if (format.empty()) format = "bf16";
      },
      "MODEL is a config.json: make its weights up");
  app.add_option("--format", format, "of the weights made up, as q4_k; bf16 if it is not said")
      ->needs(dummy)
      ->check(some_text());
}

/// The same for what is asked in words, which needs a tokenizer from elsewhere.
void add_dummy_with_text(CLI::App& app, Arguments& out) {
  add_dummy(app, out);
  app.add_option("--tokenizer", out.options.tokenizer, "a directory with the tokenizer for weights made up")
      ->needs("--dummy-weights")
      ->check(some_text());
}

void add_caps(CLI::App& app, Arguments& out) {
  app.add_option("--caps", out.caps, "for this GPU, present or not: h200, h100, a100, l4, rtx4090, b200, rtx5090");
}

void add_template(CLI::App& app, Arguments& out) {
  app.add_option("--template", out.template_file, "a chat template that replaces the model's own");
}

void add_sampling(CLI::App& app, SamplingParams& out) {
  app.add_option("--max-tokens", out.max_tokens, "tokens of the answer at most")->check(integer(0));
  app.add_option("--temperature", out.temperature, "0: always the likeliest token")->check(number(0, false));
  app.add_option("--top-k", out.top_k, "draw from this many likeliest tokens; 0: all")->check(integer(0, 1 << 30));
  app.add_option("--top-p", out.top_p, "draw from the likeliest tokens of this mass")->check(number(0, true, 1));
  app.add_option("--min-p", out.min_p, "no token below this share of the likeliest")->check(number(0, false, 1));
  app.add_option("--repetition-penalty", out.repetition_penalty, "over 1: repeat less")->check(number(0, true));
  app.add_option("--seed", out.seed, "of the random numbers")->check(seed());
  app.add_option("--stop", out.stop, "end the answer before this text; may be given again")
      ->check(some_text())
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--ignore-eos", out.ignore_eos, "go on after the model's end marks");
}

void add_json(CLI::App& app, Arguments& out) { app.add_flag("--json", out.json, "print JSON"); }

void add_run(CLI::App& app, Arguments& out) {
  add_model(app, out);
  auto* prompt = app.add_option("PROMPT", out.prompt, "what to answer; - is standard input");
  app.add_option("--prompt-file", out.prompt_file, "read the prompt from a file")->excludes(prompt);
  auto* raw = app.add_flag("--raw", out.raw, "feed the prompt as it is, without the chat template");
  app.add_option("--system", out.system, "the system message")->excludes(raw);
  add_running(app, out);
  add_dummy_with_text(app, out);
  add_template(app, out);
  add_sampling(app, out.sampling);
  add_json(app, out);
}

void add_chat(CLI::App& app, Arguments& out) {
  add_model(app, out, false);
  auto* url = app.add_option("--server", out.server_url, "talk to the server at this URL; no MODEL then");
  app.add_option("--api-key", out.server.api_keys, "the server's key")->expected(1)->needs(url)->check(some_text());
  app.add_option("--system", out.system, "the system message");
  add_running(app, out);
  add_template(app, out);
  add_sampling(app, out.sampling);
}

void add_tokenize(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("TEXT", out.text, "- is standard input")->required();
  app.add_flag("--special", out.special, "texts of special tokens count as those tokens");
  app.add_flag("--bos", out.bos, "add what the model asks for around raw text");
}

void add_detokenize(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("IDS", out.text, "a JSON list of token ids; - is standard input")->required();
}

void add_render(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("--messages", out.messages_file, "a JSON file with a list of messages; - is standard input")
      ->required();
  app.add_option("--tools", out.tools_file, "a JSON file with a list of tools");
  app.add_flag("!--no-generation-prompt", out.generation_prompt, "do not open the assistant's turn");
  add_template(app, out);
}

void add_score(CLI::App& app, Arguments& out) {
  add_model(app, out);
  auto* text = app.add_option("--text", out.text_file, "the text to score; - is standard input");
  app.add_option("--tokens", out.tokens, "the ids to score, as 1,2,3")
      ->delimiter(',')
      ->check(integer(0, INT32_MAX))
      ->excludes(text);
  app.add_option("--logits", out.logits_file, "write all logits to this .npy file");
  add_running(app, out);
  add_json(app, out);
}

void add_inspect(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_flag("--tensors", out.tensors, "list every tensor");
  app.add_flag("--plan", out.plan, "show the chosen kernels with their reasons");
  add_caps(app, out);
  app.add_flag("--support", out.support, "show what runs where");
  add_dummy(app, out);
  add_running(app, out);
  add_json(app, out);
}

void add_bench(CLI::App& app, Arguments& out) {
  BenchOptions& bench = out.bench;
  add_model(app, out);
  app.add_option("-p,--prompt", bench.prompts, "prompt lengths, as 512,2048; 0: no prefill test")
      ->delimiter(',')
      ->check(integer(0, 1 << 24));
  app.add_option("-n,--generate", bench.generate, "decode steps a sample; 0: no decode test")
      ->check(integer(0, 1 << 24));
  app.add_option("-d,--depth", bench.depths, "tokens in the cache before")->delimiter(',')->check(integer(0, 1 << 24));
  app.add_option("-b,--batch", bench.batches, "sequences at once")->delimiter(',')->check(integer(1, 1024));
  app.add_option("--samples", bench.samples, "timed runs of each test")->check(integer(1, 1000));
  add_dummy(app, out);
  add_running(app, out);
  add_json(app, out);
}

void add_warm(CLI::App& app, Arguments& out) {
  add_model(app, out, false);
  app.add_option("--format", out.options.dummy_weights, "of a config.json's weights, as q4_k; bf16 if it is not said")
      ->check(some_text());
  add_caps(app, out);
  app.add_option("--max-running", out.options.max_running, "sequences that run at once")->check(integer(1, 1024));
  add_running(app, out);
  add_json(app, out);
}

/// A time in seconds, kept in milliseconds.
void add_seconds(CLI::App& app, const char* name, std::chrono::milliseconds& out, const char* help) {
  app.add_option_function<double>(
         name,
         [&out](const double& seconds) {
           out = std::chrono::milliseconds(static_cast<std::int64_t>(std::llround(seconds * 1000)));
         },
         help)
      ->check(number(0, false, 1e6));
}

void add_limits(CLI::App& app, server::http::Limits& out) {
  app.add_option("--max-connections", out.num_connections, "connections at once; one more is told 503")
      ->check(integer(1, 1 << 20));
  app.add_option("--max-request-line", out.request_line_bytes, "bytes of a request line; more is 414")
      ->check(integer(64, 1 << 20));
  app.add_option("--max-header", out.header_bytes, "bytes of one header; more is 431")->check(integer(64, 1 << 20));
  app.add_option("--max-headers-bytes", out.headers_bytes, "bytes of all headers; more is 431")
      ->check(integer(64, 1 << 24));
  app.add_option("--max-headers", out.num_headers, "headers of a request; more is 431")->check(integer(1, 10000));
  app.add_option("--max-body", out.body_bytes, "bytes of a body; more is 413")->check(integer(1));
  app.add_option("--max-bodies", out.all_bodies_bytes, "bytes of all bodies at once; more is 503")->check(integer(1));
  add_seconds(app, "--header-timeout", out.header_time, "seconds for the headers; longer is 408");
  add_seconds(app, "--body-timeout", out.body_time, "seconds without a byte of a body; longer is 408");
  add_seconds(app, "--idle-timeout", out.idle_time, "seconds between two requests of a connection");
  add_seconds(app, "--write-timeout", out.write_time, "seconds in which a client takes nothing");
  add_seconds(app, "--keep-alive-interval", out.keep_alive_time, "seconds between comments of a silent stream");
}

void add_serve(CLI::App& app, Arguments& out) {
  server::ServerOptions& options = out.server;
  server::http::Endpoint& endpoint = options.endpoint;
  const auto repeatable = [](CLI::Option* option) {
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add_model(app, out);
  app.add_option("--config", out.config_file, "a TOML file with these flags, as port = 8080; the line counts more")
      ->check(some_text());
  auto* host = app.add_option("--host", endpoint.host, "the address to listen on")->check(some_text());
  auto* port = app.add_option("--port", endpoint.port, "0: any free one")->check(integer(0, 65535));
  app.add_option("--unix-socket", endpoint.unix_socket, "listen on this path in place of an address")
      ->check(some_text())
      ->excludes(host)
      ->excludes(port);
  auto* cert = app.add_option("--tls-cert", endpoint.tls_cert, "a certificate chain, PEM: speak TLS");
  auto* key = app.add_option("--tls-key", endpoint.tls_key, "its private key, PEM")->needs(cert);
  cert->needs(key);
  repeatable(app.add_option("--api-key", options.api_keys, "who asks must have it, or another one; may be given again")
                 ->check(some_text()));
  app.add_option("--api-key-file", out.api_key_file, "a file of keys, one a line");
  app.add_option("--alias", options.alias, "the model's name for clients")->check(some_text());
  app.add_option("--max-running", out.options.max_running, "sequences that run at once")->check(integer(1, 1024));
  app.add_option("--max-queued", out.options.max_queued, "requests that wait; one more is 429")->check(integer(0));
  repeatable(app.add_option("--cors-origin", options.cors_origins, "pages of this origin may ask; * is any")
                 ->check(some_text()));
  add_seconds(app, "--drain-timeout", options.drain_time, "seconds for what runs at SIGTERM");
  app.add_flag_callback(
      "--no-page", [&options] { options.page = false; }, "no web page at /");
  app.add_flag_callback(
      "--no-request-log", [&out] { out.request_log = false; }, "no line for each request on stderr");
  app.add_option("--http-workers", options.workers, "threads that read requests and tokenize")->check(integer(1, 256));
  add_limits(app, options.limits);
  add_running(app, out);
  add_dummy_with_text(app, out);
  add_template(app, out);
}

void add_quantize(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("OUT", out.output, "what to write: a file for GGUF's formats, a directory for others")
      ->required()
      ->check(some_text());
  std::string names;
  for (const std::string& name : quantize_formats()) names += (names.empty() ? "" : ", ") + name;
  app.add_option("--format", out.quantize.format, "one of " + names)->required()->check(one_of(quantize_formats()));
  app.add_flag("--overwrite", out.quantize.overwrite, "replace OUT if it exists");
  app.add_option("--threads", out.library.threads, "worker threads")->check(integer(1, 1024));
  add_json(app, out);
}

struct CommandEntry {
  const char* name;
  const char* help;
  Command command;
  void (*add)(CLI::App&, Arguments&);
};

constexpr CommandEntry kCommands[] = {
    {"run", "answer one prompt", Command::kRun, add_run},
    {"chat", "hold a conversation in the terminal", Command::kChat, add_chat},
    {"tokenize", "print the token ids of a text", Command::kTokenize, add_tokenize},
    {"detokenize", "print the text of token ids", Command::kDetokenize, add_detokenize},
    {"render", "print the prompt that the chat template makes", Command::kRender, add_render},
    {"score", "print how likely a model finds a text", Command::kScore, add_score},
    {"inspect", "print what a model file holds and how it would run", Command::kInspect, add_inspect},
    {"bench", "measure prefill and decode rates", Command::kBench, add_bench},
    {"serve", "answer over HTTP, as OpenAI's API does", Command::kServe, add_serve},
    {"warm", "make the GPU kernels of a model, or of all that are known, before they are needed", Command::kWarm,
     add_warm},
    {"quantize", "write a model in another weight format", Command::kQuantize, add_quantize},
};

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

/// What CLI11's validators cannot see: relations between arguments.
Status check_together(const Arguments& arguments) {
  const auto usage = [](std::string sentence) { return fail(ErrorCode::kInvalidArgument, "{}", sentence); };
  const std::string& device = arguments.options.device;
  if (arguments.options.deterministic && (device == "cpu" || device == "reference")) {
    return usage("--deterministic is for GPUs: --device " + device + " always is");
  }
  if (arguments.options.tune && (device == "cpu" || device == "reference")) {
    return usage("--tune is for GPUs, not for --device " + device);
  }
  if (arguments.options.tune && arguments.options.deterministic) {
    return usage("--tune has nothing to choose with --deterministic: its steps are not captured");
  }
  if (arguments.command == Command::kWarm && arguments.model.empty() &&
      (!arguments.options.dummy_weights.empty() || !arguments.options.ignore_keys.empty())) {
    return usage("--format and --ignore-key are of one model: name it");
  }
  if (arguments.command == Command::kScore && arguments.text_file.empty() && arguments.tokens.empty()) {
    return usage("score needs --text FILE or --tokens 1,2,3");
  }
  if (arguments.command == Command::kChat && arguments.model.empty() == arguments.server_url.empty()) {
    return usage("chat needs a MODEL or --server URL, one of them");
  }
  if (arguments.command == Command::kRun && arguments.prompt.empty() && arguments.prompt_file.empty()) {
    return usage("run needs a prompt: an argument, --prompt-file FILE, or - for standard input");
  }
  return Ok{};
}

}  // namespace

Result<ParsedLine> parse_command_line(int argc, char** argv) {
  Arguments arguments;
  const std::string version = "pagoda " + std::string(Library::version());
  CLI::App app("Runs large language models.", "pagoda");
  app.set_version_flag("--version", version);
  app.set_help_flag("-h,--help", "print this");
  app.require_subcommand(1);
  for (const CommandEntry& entry : kCommands) {
    CLI::App* command = app.add_subcommand(entry.name, entry.help);
    command->set_version_flag("--version", version);
    command->callback([&arguments, &entry] { arguments.command = entry.command; });
    entry.add(*command, arguments);
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "serve") words = PAGODA_TRY(with_config_file(std::move(words)));
  try {
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help, version
      std::ostringstream text;
      app.exit(error, text, text);
      return ParsedLine{.arguments = {}, .text = text.str()};
    }
    return fail(ErrorCode::kInvalidArgument, "{}; see pagoda --help", one_line(error.what()));
  }
  PAGODA_TRY(check_together(arguments));
  return ParsedLine{.arguments = std::move(arguments), .text = {}};
}

}  // namespace pagoda::apps
