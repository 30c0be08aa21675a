#include "apps/flags.h"

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "apps/checks.h"
#include "base/format.h"
#include "base/to_float.h"

namespace pagoda::apps {
namespace {

/// The title under which help lists the options that are added from here on.
void begin(CLI::App& app, const char* title) { app.option_defaults()->group(title); }

/// May be given again, each time with one value: CLI11 would let a list take the words behind it too.
void repeatable(CLI::Option* option) {
  option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// Whole numbers in [least, most] with commas between them.
template <class T>
void add_list(CLI::App& app, const char* name, std::vector<T>& out, const char* help, std::int64_t least,
              std::int64_t most) {
  std::string old;
  for (const T value : out) old += pagoda::format("{}{}", old.empty() ? "" : ",", value);
  auto* const option = app.add_option_function<std::vector<std::string>>(
      name,
      [&out](const std::vector<std::string>& lists) {
        out.clear();
        for (const std::string& list : lists) {
          const auto values = read_integers(list);  // checked already
          for (const std::int64_t value : *values) out.push_back(static_cast<T>(value));
        }
      },
      help);
  repeatable(option->type_name("N,...")->default_str(old)->check(integers(least, most)));
}

void add_model(CLI::App& app, Arguments& out, bool required = true) {
  app.add_option("MODEL", out.model, "a GGUF file, or a Hugging Face directory")
      ->required(required)
      ->check(some_text());
}

void add_ignore_key(CLI::App& app, Arguments& out) {
  repeatable(app.add_option("--ignore-key", out.options.ignore_keys,
                            "pass over this configuration key of the model; may be given again")
                 ->type_name("KEY")
                 ->check(some_text()));
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
  app.add_option("--format", format, "of weights made up, as q4_k or q4_k_m [bf16]")
      ->type_name("FORMAT")
      ->needs(dummy)
      ->check(some_text());
  app.add_option("--head-format", out.options.dummy_head, "of their head and embedding [as the others]")
      ->type_name("FORMAT")
      ->needs(dummy)
      ->check(some_text());
}

/// The same for what is asked in words, which needs a tokenizer from elsewhere.
void add_dummy_with_text(CLI::App& app, Arguments& out) {
  add_dummy(app, out);
  app.add_option("--tokenizer", out.options.tokenizer, "a directory with the tokenizer for weights made up")
      ->type_name("DIR")
      ->needs("--dummy-weights")
      ->check(some_text());
}

void add_template(CLI::App& app, Arguments& out) {
  app.add_option("--template", out.template_file, "a chat template (Jinja) that replaces the model's own")
      ->type_name("FILE")
      ->check(some_text());
}

void add_threads(CLI::App& app, Arguments& out) {
  app.add_option("--threads", out.library.threads, "worker threads [all CPUs it may use]")
      ->default_str("")
      ->check(integer(1, 1024));
}

void add_caps(CLI::App& app, Arguments& out) {
  app.add_option("--caps", out.caps, "for this GPU, present or not, as h200; another word lists them")
      ->type_name("GPU")
      ->check(some_text());
}

void add_running(CLI::App& app, Arguments& out) {
  ModelOptions& options = out.options;
  begin(app, "Device");
  app.add_option("--device", options.device,
                 "auto (the first GPU that can hold the model, else the CPU), cpu, cuda, cuda:N, or reference (double "
                 "precision: slow, exact)")
      ->type_name("DEVICE")
      ->check(device());
  app.add_option_function<std::string>(
         "--precision",
         [&options](const std::string& text) {
           options.precision = text == "high" ? Precision::kHigh : Precision::kStandard;
         },
         "standard or high (CPU)")
      ->type_name("WORD")
      ->default_str("standard")
      ->check(one_of({"standard", "high"}));
  app.add_flag("--deterministic", options.deterministic, "the same bits in every batch (GPU; a CPU is always so)");
  app.add_flag("--tune", options.tune, "measure at start which way to launch kernels is faster (GPU)");
  add_threads(app, out);
  app.add_option("--cpu", out.library.cpu_isa, "portable, avx2, avx512 or avx512_bf16 [the best there is]")
      ->type_name("SET")
      ->check(one_of({"portable", "avx2", "avx512", "avx512_bf16"}));
  begin(app, "Context and cache");
  app.add_option("--ctx", options.context, "tokens of a sequence at most, prompt and answer [the model's]")
      ->check(integer(1));
  app.add_option("--kv-dtype", options.kv_dtype, "auto, bf16, f16 (CPU) or fp8_e4m3 (GPU)")
      ->type_name("TYPE")
      ->check(one_of({"auto", "bf16", "f16", "fp8_e4m3"}));
  auto* tokens = app.add_option("--kv-tokens", options.kv_tokens, "size of the KV cache in tokens")->check(integer(1));
  app.add_option("--kv-bytes", options.kv_bytes, "size of the KV cache in bytes")->check(integer(1))->excludes(tokens);
  app.add_option("--block-size", options.block_size, "tokens of a cache block, a power of two")
      ->check(power_of_two(8, 256));
  app.add_option("--prefill-chunk", options.prefill_chunk, "prompt tokens of a step at most")->check(integer(1, 65536));
}

void add_max_running(CLI::App& app, Arguments& out) {
  app.add_option("--max-running", out.options.max_running, "sequences that run at once")->check(integer(1, 1024));
}

void add_sampling(CLI::App& app, SamplingParams& out) {
  begin(app, "Sampling (by default the model's own, else greedy)");
  app.add_option("--max-tokens", out.max_tokens, "tokens of the answer at most [to the context's end]")
      ->check(integer(0));
  const auto number = [&app](const char* name, std::optional<float>& to, const char* help) {
    return app
        .add_option_function<double>(
            name, [&to](const double& value) { to = to_float(value); }, help)
        ->type_name("X");
  };
  number("--temperature", out.temperature, "0: always the likeliest token")->check(at_least(0, kMostFloat));
  app.add_option("--top-k", out.top_k, "draw from this many likeliest tokens; 0: all")->check(integer(0, 1 << 30));
  number("--top-p", out.top_p, "draw from the likeliest tokens of this mass")->check(over(0, 1));
  number("--min-p", out.min_p, "no token below this share of the likeliest")->check(at_least(0, 1));
  number("--repetition-penalty", out.repetition_penalty, "over 1: repeat less")->check(at_least(1e-6, 1e6));
  app.add_option("--seed", out.seed, "seed of the random numbers [a new one, which is told]")->check(natural());
  repeatable(app.add_option("--stop", out.stop, "end the answer before this text; may be given again")
                 ->check(some_text())
                 ->check(utf8()));
  app.add_flag("--ignore-eos", out.ignore_eos, "go on after the model's end marks");
}

void add_json(CLI::App& app, Arguments& out) { app.add_flag("--json", out.json, "print JSON"); }

void add_run(CLI::App& app, Arguments& out) {
  add_model(app, out);
  auto* prompt = app.add_option("PROMPT", out.prompt, "what to answer; - is standard input")->check(utf8());
  app.add_option("--prompt-file", out.prompt_file, "read the prompt from this file")
      ->type_name("FILE")
      ->check(some_text())
      ->excludes(prompt);
  auto* raw = app.add_flag("--raw", out.raw, "feed the prompt as it is, without the chat template");
  app.add_option("--system", out.system, "the system message")->check(utf8())->excludes(raw);
  add_json(app, out);
  begin(app, "Model");
  add_template(app, out);
  add_ignore_key(app, out);
  add_dummy_with_text(app, out);
  add_sampling(app, out.sampling);
  add_running(app, out);
}

void add_chat(CLI::App& app, Arguments& out) {
  add_model(app, out, false);
  auto* url = app.add_option("--server", out.server_url,
                             "talk to the server at this URL; no MODEL then. It samples by the model's own, else at 1")
                  ->type_name("URL")
                  ->check(some_text());
  app.add_option("--api-key", out.server.api_keys, "the server's key [PAGODA_API_KEY]")
      ->type_name("KEY")
      ->expected(1)
      ->needs(url)
      ->check(some_text());
  app.add_option("--system", out.system, "the system message")->check(utf8());
  begin(app, "Model");
  add_template(app, out);
  add_ignore_key(app, out);
  add_sampling(app, out.sampling);
  add_running(app, out);
  app.parse_complete_callback([&app, url] {  // a server has chosen these already
    if (url->empty()) return;
    for (const CLI::Option* option : app.get_options()) {
      const std::string& group = option->get_group();
      const bool local = group == "Model" || group == "Device" || group == "Context and cache";
      if (local && !option->empty()) throw CLI::ExcludesError(option->get_name(), url->get_name());
    }
  });
}

void add_tokenize(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("TEXT", out.text, "- is standard input")->required()->check(utf8());
  app.add_flag("--special", out.special, "texts of special tokens count as those tokens");
  app.add_flag("--bos", out.bos, "add what the model asks for around raw text");
  add_ignore_key(app, out);
}

void add_detokenize(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("IDS", out.text, "a JSON list of token ids; - is standard input")->required();
  add_ignore_key(app, out);
}

void add_render(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("--messages", out.messages_file, "a JSON file with a list of messages; - is standard input; required")
      ->type_name("FILE")
      ->check(some_text())
      ->required();
  app.add_option("--tools", out.tools_file, "a JSON file with a list of tools")->type_name("FILE")->check(some_text());
  app.add_flag_callback(
      "--no-generation-prompt", [&out] { out.generation_prompt = false; }, "do not open the assistant's turn");
  add_template(app, out);
  add_ignore_key(app, out);
}

void add_score(CLI::App& app, Arguments& out) {
  add_model(app, out);
  auto* text = app.add_option("--text", out.text_file, "the text to score; - is standard input")
                   ->type_name("FILE")
                   ->check(some_text());
  add_list(app, "--tokens", out.tokens, "the ids to score, as 1,2,3", 0, INT32_MAX);
  app.get_option("--tokens")->excludes(text);
  app.add_option("--logits", out.logits_file, "write all logits to this .npy file, in place of an older one")
      ->type_name("FILE")
      ->check(some_text());
  add_json(app, out);
  begin(app, "Model");
  add_ignore_key(app, out);
  add_running(app, out);
}

void add_inspect(CLI::App& app, Arguments& out) {
  add_model(app, out, false);
  app.add_flag("--tensors", out.tensors, "list every tensor");
  app.add_flag("--plan", out.plan, "show the chosen kernels with their reasons");
  app.add_flag("--support", out.support, "show what runs where; needs no MODEL");
  add_caps(app, out);
  add_json(app, out);
  begin(app, "Model");
  add_ignore_key(app, out);
  add_dummy(app, out);
  add_running(app, out);
}

void add_bench(CLI::App& app, Arguments& out) {
  BenchOptions& bench = out.bench;
  add_model(app, out);
  constexpr std::int64_t kMostTokens = 1 << 24;
  add_list(app, "-p,--prompt", bench.prompts, "prompt lengths, as 512,2048; 0: no prefill test", 0, kMostTokens);
  app.add_option("-n,--generate", bench.generate, "decode steps a sample; 0: no decode test")
      ->check(integer(0, kMostTokens));
  add_list(app, "-d,--depth", bench.depths, "tokens that are in the cache already", 0, kMostTokens);
  add_list(app, "-b,--batch", bench.batches, "sequences at once", 1, 1024);
  app.add_option("--samples", bench.samples, "timed runs of each test")->check(integer(1, 1000));
  add_json(app, out);
  begin(app, "Model");
  add_ignore_key(app, out);
  add_dummy(app, out);
  add_running(app, out);
}

void add_warm(CLI::App& app, Arguments& out) {
  app.add_option("MODEL", out.model,
                 "a GGUF file, a Hugging Face directory or a config.json; without one, all that are known");
  app.add_option("--format", out.options.dummy_weights, "of a config.json's weights, as q4_k or q4_k_m [bf16]")
      ->type_name("FORMAT")
      ->check(some_text());
  app.add_option("--head-format", out.options.dummy_head, "of its head and embedding [as the others]")
      ->type_name("FORMAT")
      ->check(some_text());
  add_caps(app, out);
  add_max_running(app, out);
  add_json(app, out);
  add_ignore_key(app, out);
  add_running(app, out);
}

/// A time in seconds, kept in milliseconds.
void add_seconds(CLI::App& app, const char* name, std::chrono::milliseconds& out, const char* help, double least = 0) {
  app.add_option_function<double>(
         name,
         [&out](const double& seconds) {
           out = std::chrono::milliseconds(static_cast<std::int64_t>(std::llround(seconds * 1000)));
         },
         help)
      ->type_name("S")
      ->default_str(pagoda::format("{}", static_cast<double>(out.count()) / 1000))
      ->check(at_least(least, 1e6));
}

void add_limits(CLI::App& app, server::http::Limits& out) {
  constexpr double kLeast = 0.1;  // a second's tenth: with none at all nobody could be answered
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
  add_seconds(app, "--header-timeout", out.header_time, "seconds for the headers; longer is 408", kLeast);
  add_seconds(app, "--body-timeout", out.body_time, "seconds without a byte of a body; longer is 408", kLeast);
  add_seconds(app, "--idle-timeout", out.idle_time, "seconds between two requests of a connection", kLeast);
  add_seconds(app, "--write-timeout", out.write_time, "seconds in which a client takes nothing", kLeast);
  add_seconds(app, "--keep-alive-interval", out.keep_alive_time, "seconds between comments of a silent stream", kLeast);
}

void add_serve(CLI::App& app, Arguments& out) {
  server::ServerOptions& options = out.server;
  server::http::Endpoint& endpoint = options.endpoint;
  add_model(app, out);
  app.add_option("--config", out.config_file, "a TOML file of these flags, as port = 8080; the command line wins")
      ->type_name("FILE")
      ->check(some_text());
  app.add_option("--alias", options.alias, "the model's name for clients [the file's]")
      ->type_name("NAME")
      ->check(some_text())
      ->check(utf8());
  add_max_running(app, out);
  app.add_option("--max-queued", out.options.max_queued, "requests that wait; one more is 429")->check(integer(0));
  add_seconds(app, "--drain-timeout", options.drain_time, "seconds for what runs at SIGTERM");
  app.add_flag_callback(
      "--no-page", [&options] { options.page = false; }, "no web page at /");
  app.add_flag_callback(
      "--no-request-log", [&out] { out.request_log = false; }, "no line for each request on stderr");
  app.add_option("--http-workers", options.workers, "threads that read requests and tokenize; one is for small ones")
      ->check(integer(1, 256));
  begin(app, "Address and keys");
  auto* host =
      app.add_option("--host", endpoint.host, "the address to listen on")->type_name("ADDRESS")->check(some_text());
  auto* port = app.add_option("--port", endpoint.port, "0: any free one")->check(integer(0, 65535));
  app.add_option("--unix-socket", endpoint.unix_socket, "listen on this path in place of an address")
      ->type_name("PATH")
      ->check(some_text())
      ->excludes(host)
      ->excludes(port);
  auto* cert = app.add_option("--tls-cert", endpoint.tls_cert, "a certificate chain, PEM: speak TLS; with --tls-key")
                   ->type_name("FILE")
                   ->check(some_text());
  auto* key = app.add_option("--tls-key", endpoint.tls_key, "its private key, PEM")
                  ->type_name("FILE")
                  ->check(some_text())
                  ->needs(cert);
  cert->needs(key);
  repeatable(
      app.add_option("--api-key", options.api_keys,
                     "who asks must have this key, or another one; may be given again. PAGODA_API_KEY is one too")
          ->type_name("KEY")
          ->check(some_text()));
  app.add_option("--api-key-file", out.api_key_file, "a file of keys, one a line")
      ->type_name("FILE")
      ->check(some_text());
  repeatable(app.add_option("--cors-origin", options.cors_origins,
                            "pages of this origin may ask, * is any; may be given again")
                 ->type_name("ORIGIN")
                 ->check(origin()));
  begin(app, "Model");
  add_template(app, out);
  add_ignore_key(app, out);
  add_dummy_with_text(app, out);
  add_running(app, out);
  begin(app, "Limits of HTTP");
  add_limits(app, options.limits);
}

/// One of those that can be written; of a name that `bench` knows, the one to use.
CLI::Validator quantize_format() {
  return CLI::Validator(
      [one = one_of(quantize_formats())](std::string& text) -> std::string {
        const std::string like = quantize_format_like(text);
        const std::string wrong = one(text);
        if (wrong.empty() || like.empty()) return wrong;
        return pagoda::format("{} is read, but not written: {} holds the same weights", text, like);
      },
      {});
}

void add_quantize(CLI::App& app, Arguments& out) {
  add_model(app, out);
  app.add_option("OUT", out.output, "what to write: a file for GGUF's formats, a directory for others")
      ->required()
      ->check(some_text());
  std::string names;
  for (const std::string& name : quantize_formats()) names += (names.empty() ? "" : ", ") + name;
  app.add_option("--format", out.quantize.format, "required; one of " + names)
      ->type_name("FORMAT")
      ->required()
      ->check(quantize_format());
  app.add_flag("--overwrite", out.quantize.overwrite, "replace OUT if it exists");
  add_ignore_key(app, out);
  add_threads(app, out);
  add_json(app, out);
}

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
    {"warm", "compile a GPU's kernels ahead, of one model or of all that are known", Command::kWarm, add_warm},
    {"quantize", "write a model in another weight format", Command::kQuantize, add_quantize},
};

}  // namespace

std::span<const CommandEntry> commands() { return kCommands; }

}  // namespace pagoda::apps
