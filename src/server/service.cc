#include "server/service.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <random>

#include "pagoda/library.h"
#include "server/json/json.h"
#include "server/protocol/openapi.h"
#include "server/protocol/token_text.h"

namespace pagoda::server {
namespace {

/// What is read and tokenized within some ten milliseconds. Larger ones must not hold it up.
constexpr std::size_t kSmallBody = 256 << 10;

/// Ids that stand for a text: a model's head may have more rows than its tokenizer has tokens.
std::int64_t num_tokens(const Model& model) {
  std::int64_t count = model.info().vocabulary;
  while (count > 0) {
    const std::array last = {static_cast<std::int32_t>(count - 1)};
    if (model.detokenize(last).ok()) break;
    --count;
  }
  return count;
}

ServedModel describe(const Model& model, const ServerOptions& options) {
  const ModelInfo& info = model.info();
  const auto around_text = model.tokenize("", {.bos = true});
  return {.name = options.alias.empty() ? info.name : options.alias,
          .vocabulary = num_tokens(model),
          .context = info.context,
          .has_template = info.has_chat_template,
          .adds_tokens = around_text.ok() && !around_text->empty(),
          .declares_temperature = model.sampling_defaults().temperature.has_value(),
          .reads_enable_thinking = model.template_reads("enable_thinking"),
          .reads_reasoning_effort = model.template_reads("reasoning_effort"),
          .model = model};
}

Result<ListedPrompt> list_prompt(const Model& model, const Request& request) {
  ListedPrompt out{.ids = PAGODA_TRY(model.prompt_ids(request))};
  if (!request.echo) return out;
  const auto* const raw = std::get_if<RawText>(&request.prompt);
  out.first_offset = first_offset(out.ids, raw != nullptr ? raw->text : PAGODA_TRY(model.detokenize(out.ids)), model);
  return out;
}

/// A part of a path as its client meant it: %2F is a slash. What is no escape stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool escape =
        text[i] == '%' && text.size() - i > 2 && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    out += escape ? static_cast<char>(byte) : text[i];
    if (escape) i += 2;
  }
  return out;
}

std::string random_name() {
  std::random_device device;
  return format("{:08x}{:08x}", device(), device());
}

http::Response json_response(std::string body) {
  http::Response out;
  out.body = std::move(body);
  return out;
}

/// "2026-11-30T15:04:05.678Z"
std::string utc_now() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return format("{}.{:03}Z", std::string_view(text.data(), size), now.tv_nsec / 1'000'000);
}

/// Whatever the case of its letters; `wanted` has small ones.
bool equals(std::string_view text, std::string_view wanted) {
  return std::ranges::equal(
      text, wanted, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a | 0x20) : a) == b; });
}

bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return equals(type, "application/json");
}

enum class Target : std::uint8_t {
  kChat,
  kCompletions,
  kTokenize,
  kDetokenize,
  kModels,
  kModel,
  kHealth,
  kReady,
  kMetrics,
  kVersion,
  kOpenapi,
  kPage,
};

}  // namespace

struct Service::Entry {
  std::string_view path;
  Target target;
  bool post = false;
  bool open = false;   ///< without a key
  bool early = false;  ///< while the model is being opened
};

namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::array<Service::Entry, 10> kEntries = {{
    {"/v1/chat/completions", Target::kChat, true},
    {"/v1/completions", Target::kCompletions, true},
    {"/tokenize", Target::kTokenize, true},
    {"/detokenize", Target::kDetokenize, true},
    {"/v1/models", Target::kModels},
    {"/health", Target::kHealth, false, true, true},
    {"/ready", Target::kReady, false, true, true},
    {"/metrics", Target::kMetrics, false, false, true},
    {"/version", Target::kVersion, false, false, true},
    {"/openapi.json", Target::kOpenapi},
}};
constexpr Service::Entry kModelEntry{kModelPrefix, Target::kModel};
constexpr Service::Entry kPageEntry{"/", Target::kPage, false, true, true};

}  // namespace

Service::Loaded::Loaded(const Model& model, const ServerOptions& options)
    : served(describe(model, options)),
      openapi(openapi_json(served, !options.api_keys.empty())),
      chat(Route::kChat, served),
      completions(Route::kCompletions, served),
      tokenize(Route::kTokenize, served),
      detokenize(Route::kDetokenize, served) {}

Service::Service(const ServerOptions& options, bool loopback)
    : options_(options),
      loopback_(loopback),
      keys_(options.api_keys),
      created_(std::time(nullptr)),
      instance_(random_name()),
      workers_(options.workers) {}

Service::~Service() = default;

void Service::loading(const Progress& progress) {
  const std::scoped_lock lock(load_mutex_);
  load_state_.stage = progress.stage;
  if (progress.stage != ProgressStage::kReadWeights) return;
  load_state_.bytes = progress.done;
  load_state_.total_bytes = progress.total;
}

Service::LoadState Service::load_state() const {
  const std::scoped_lock lock(load_mutex_);
  return load_state_;
}

void Service::serve(const Model& model) { loaded_ = std::make_unique<const Loaded>(model, options_); }

const Service::Entry* Service::find(std::string_view path) const {
  for (const Entry& entry : kEntries) {
    if (entry.path == path) return &entry;
  }
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) return &kModelEntry;
  if (options_.page && page_.has(path)) return &kPageEntry;
  return nullptr;
}

bool Service::allows_origin(std::string_view origin) const {
  return std::ranges::any_of(options_.cors_origins,
                             [origin](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

/// A page of another site asks what is open for this machine alone. The browser thinks that it asks its own site, if
/// that site's name has come to mean this machine (DNS rebinding).
bool Service::comes_from_elsewhere(const http::Request& request) const {
  if (!keys_.empty() || !loopback_) return false;
  const std::string* const origin = request.header("origin");
  if (origin == nullptr || allows_origin(*origin)) return false;
  const std::size_t scheme = origin->find("://");
  if (scheme == std::string::npos) return true;
  const std::string_view host = http::host_of(std::string_view(*origin).substr(scheme + 3));
  return !http::is_loopback(host) && !equals(options_.endpoint.host, host);
}

std::optional<http::Response> Service::preflight(const http::Request& request) const {
  const std::string* const origin = request.header("origin");
  if (request.method != "OPTIONS" || origin == nullptr || !allows_origin(*origin) ||
      request.header("access-control-request-method") == nullptr) {
    return std::nullopt;
  }
  http::Response out{.status = 204, .headers = {}, .body = {}};
  out.headers = {{"access-control-allow-methods", "GET, POST, OPTIONS"}, {"access-control-max-age", "600"}};
  // Clients for browsers add headers of their own, as OpenAI's does; none of them means anything here.
  if (const std::string* const wanted = request.header("access-control-request-headers")) {
    out.headers.emplace_back("access-control-allow-headers", *wanted);
  }
  return out;
}

std::optional<http::Response> Service::refuse(const http::Request& request) {
  if (auto response = preflight(request)) return response;
  const Entry* const entry = find(request.path);
  if (!keys_.empty() && !(entry != nullptr && entry->open) && !keys_.admit(request)) {
    metrics_.refused("unauthorized");
    http::Response out = error(401, "invalid_api_key", "this server needs an API key: Authorization: Bearer KEY");
    out.headers.emplace_back("www-authenticate", "Bearer");
    return out;
  }
  if (comes_from_elsewhere(request)) {
    return error(403, "origin_not_allowed", "pages of that origin may not ask: --cors-origin names those that may");
  }
  if (entry == nullptr) return error(404, "not_found", "this server has no such path");
  const bool fits = entry->post ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!fits) {
    http::Response out = error(405, "method_not_allowed", "this path is not for this method");
    out.headers.emplace_back("allow", entry->post ? "POST" : "GET, HEAD");
    return out;
  }
  if (loaded_ == nullptr && !entry->early) {
    metrics_.refused("loading");
    const LoadState load = load_state();
    return to_response({.status = 503,
                        .message = format("the model is being loaded: {}, {} of {} bytes of weights are read",
                                          to_string(load.stage), load.bytes, load.total_bytes),
                        .type = "server_error",
                        .code = "model_loading",
                        .retry_after_s = 1});
  }
  if (!entry->post) return std::nullopt;
  if (draining_) return error(503, "shutting_down", "the server is shutting down");
  // Pages of other sites cannot send this type without asking first.
  const std::string* const type = request.header("content-type");
  if (type == nullptr || !is_json(*type)) {
    return error(415, "unsupported_media_type", "the body must be JSON: Content-Type: application/json");
  }
  const auto is_coded = [](const auto& header) {
    return header.first == "content-encoding" && !equals(header.second, "identity");
  };
  if (std::ranges::any_of(request.headers, is_coded)) {
    return error(415, "unsupported_media_type", "the body must be JSON as it is, without a Content-Encoding");
  }
  return std::nullopt;
}

std::unique_ptr<http::Answer> Service::answer(http::Request request) {
  const auto ready = [](http::Response response) { return std::make_unique<http::Ready>(std::move(response)); };
  const Entry* const entry = find(request.path);
  if (entry == nullptr) return ready(error(404, "not_found", "this server has no such path"));
  switch (entry->target) {
    case Target::kChat:
      return work(loaded_->chat, std::move(request));
    case Target::kCompletions:
      return work(loaded_->completions, std::move(request));
    case Target::kTokenize:
      return work(loaded_->tokenize, std::move(request));
    case Target::kDetokenize:
      return work(loaded_->detokenize, std::move(request));
    case Target::kModels:
      return ready(models());
    case Target::kModel:
      return ready(model(request));
    case Target::kHealth:
      return ready(health());
    case Target::kReady:
      return ready(this->ready());
    case Target::kMetrics:
      return ready(metrics());
    case Target::kVersion:
      return ready(
          json_response(JsonWriter().open_object().member("version", Library::version()).close_object().take()));
    case Target::kOpenapi:
      return ready(json_response(loaded_->openapi));
    case Target::kPage:
      return ready(page_.get(request));
  }
  return nullptr;
}

std::unique_ptr<http::Answer> Service::work(const RequestReader& reader, http::Request request) {
  const bool chat = &reader == &loaded_->chat;
  AnswerContext context{.model = loaded_->served.model,
                        .head = {.id = format("{}-{}{:x}", chat ? "chatcmpl" : "cmpl", instance_, ++num_answers_),
                                 .created = std::time(nullptr),
                                 .model = loaded_->served.name},
                        .metrics = &metrics_};
  const auto size = request.body.size() > kSmallBody ? Workers::Size::kLarge : Workers::Size::kSmall;
  auto job = [this, &reader, body = std::move(request.body)](const std::atomic<bool>& abandoned) -> Outcome {
    try {
      auto read = reader.read(body);
      if (auto* const error = std::get_if<ApiError>(&read)) return to_response(*error);
      ApiRequest& asked = std::get<ApiRequest>(read);
      if (asked.route == Route::kTokenize) return tokenize(asked);
      if (asked.route == Route::kDetokenize) return detokenize(asked);
      return generate(std::move(asked), abandoned);
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  };
  return std::make_unique<GenerateAnswer>(std::move(context), std::move(job), workers_, size);
}

Outcome Service::generate(ApiRequest request, const std::atomic<bool>& abandoned) const {
  const std::int64_t choices = std::ssize(request.requests) * request.n;
  const std::int64_t most = loaded_->served.model.info().most_choices;
  if (choices > most) {
    return to_response({.status = 400,
                        .message = format("{} prompts with n {} are {} choices, and no more than {} may run or wait",
                                          request.requests.size(), request.n, choices, most),
                        .param = "n",
                        .code = "invalid_value"});
  }
  Started out;
  const bool lists_prompt =
      request.returns_ids || (!request.stream && request.common.echo && request.common.sampling.logprobs);
  const char* const prompt_field = request.route == Route::kChat ? "messages" : "prompt";
  for (Request& one : request.requests) {
    if (abandoned) return http::Response{};
    Result<Generation> generation = loaded_->served.model.generate(one);
    if (!generation.ok()) {
      ApiError error = api_error(generation.error());
      if (error.param == "prompt") error.param = prompt_field;
      return to_response(error);
    }
    out.generations.push_back(std::move(*generation));
    if (lists_prompt) {
      auto listed = list_prompt(loaded_->served.model, one);
      if (!listed.ok()) return to_response(api_error(listed.error()));
      out.prompts.push_back(std::move(*listed));
    }
    one.prompt = TokenIds{};  // it may be large, and was taken
  }
  out.request = std::move(request);
  return out;
}

Outcome Service::tokenize(const ApiRequest& request) const {
  const auto ids = loaded_->served.model.prompt_ids(request.requests.front());
  if (!ids.ok()) return to_response(api_error(ids.error()));
  JsonWriter out;
  out.open_object().key("tokens").open_array();
  for (const std::int32_t id : *ids) out.value(id);
  out.close_array().member("count", static_cast<std::int64_t>(ids->size()));
  out.member("max_model_len", loaded_->served.context).close_object();
  return json_response(out.take());
}

Outcome Service::detokenize(const ApiRequest& request) const {
  const auto text = loaded_->served.model.detokenize(request.tokens);
  if (!text.ok()) return to_response(api_error(text.error()));
  return json_response(JsonWriter().open_object().member("prompt", *text).close_object().take());
}

http::Response Service::error(int status, std::string_view code, std::string_view sentence) {
  if (status == 503) metrics_.refused(code);
  return to_response({.status = status,
                      .message = std::string(sentence),
                      .type = status >= 500 ? "server_error" : "invalid_request_error",
                      .code = std::string(code),
                      .retry_after_s = status == 503 ? 1 : 0});
}

http::Response Service::health() const {
  if (loaded_ == nullptr) {
    const LoadState load = load_state();
    JsonWriter body;
    body.open_object().member("status", "loading").member("phase", to_string(load.stage));
    body.member("bytes_loaded", static_cast<std::int64_t>(load.bytes));
    body.member("bytes_total", static_cast<std::int64_t>(load.total_bytes)).close_object();
    http::Response out = json_response(body.take());
    out.status = 503;
    out.headers.emplace_back("retry-after", "1");
    return out;
  }
  const Status engine = loaded_->served.model.health();
  const bool good = engine.ok() && !stuck_ && !draining_;
  const char* const status = !engine.ok() ? "engine ended"
                             : stuck_     ? "no progress"
                             : draining_  ? "shutting down"
                                          : "ok";
  http::Response out = json_response(JsonWriter().open_object().member("status", status).close_object().take());
  out.status = good ? 200 : 503;
  return out;
}

http::Response Service::ready() const { return health(); }

http::Response Service::models() const {
  JsonWriter out;
  out.open_object().member("object", "list").key("data").open_array();
  out.raw(model_json(loaded_->served, created_)).close_array().close_object();
  return json_response(out.take());
}

http::Response Service::model(const http::Request& request) const {
  if (percent_decoded(std::string_view(request.path).substr(kModelPrefix.size())) == loaded_->served.name) {
    return json_response(model_json(loaded_->served, created_));
  }
  return to_response({.status = 404,
                      .message = "this server has no model of that name; /v1/models lists what it has",
                      .param = "model",
                      .code = "model_not_found"});
}

http::Response Service::metrics() const {
  http::Response out;
  out.content_type = "text/plain; version=0.0.4; charset=utf-8";
  const Metrics::Now now{.connections = connections_, .lost_log_lines = options_.num_lost_log_lines()};
  if (loaded_ == nullptr) {
    const LoadState load = load_state();
    out.body = metrics_.write_loading(load.bytes, load.total_bytes, now);
  } else {
    out.body = metrics_.write(loaded_->served.name, loaded_->served.model.stats(), now);
  }
  return out;
}

http::Headers Service::headers_for(const http::Request& request) {
  http::Headers out = {{"x-content-type-options", "nosniff"}};
  if (options_.cors_origins.empty()) return out;
  out.emplace_back("vary", "origin");
  const std::string* const origin = request.header("origin");
  if (origin == nullptr || !allows_origin(*origin)) return out;
  out.emplace_back("access-control-allow-origin", *origin);
  out.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
  return out;
}

void Service::finished(const http::Request& request, const End& end) {
  const Entry* const entry = find(request.path);
  const std::string_view route = entry != nullptr ? entry->path : "unknown";
  end.status != 0 ? metrics_.response(route, end.status) : metrics_.no_response(route);
  if (end.status == 429) metrics_.refused("queue_full");
  if (end.status == 400 && entry != nullptr) metrics_.refused("invalid");
  if (!options_.request_log) return;
  JsonWriter out;
  out.open_object().member("time", utc_now()).member("id", request.id).member("peer", request.peer);
  out.member("method", entry != nullptr ? std::string_view(request.method) : "").member("route", route);
  out.member("status", static_cast<std::int64_t>(end.status)).member("bytes", static_cast<std::int64_t>(end.bytes));
  out.member("complete", end.complete).member("ms", end.ms).close_object();
  std::string line = out.take();
  if (!end.log_members.empty()) line.insert(1, end.log_members);
  options_.request_log(line);
}

std::optional<Error> Service::every_second(std::int64_t connections) {
  constexpr auto kStoodStill = std::chrono::seconds(3);
  connections_ = connections;
  const auto now = std::chrono::steady_clock::now();
  if (now - std::exchange(last_look_, now) > kStoodStill) resumed_ = now;
  if (loaded_ == nullptr) return std::nullopt;
  // Not from what requests are told: those that ran may all have been left by then.
  if (const Status engine = loaded_->served.model.health(); !engine.ok()) {
    return fail(engine.error().code, "the engine has ended: {}", engine.error().message);
  }
  // A process that was stopped for a while took no step either: its engine has all its time from then on.
  const double stalled_s =
      std::min(loaded_->served.model.stats().stalled_ms / 1000, std::chrono::duration<double>(now - resumed_).count());
  stuck_ = stalled_s >= static_cast<double>(options_.stuck_time.count());
  if (stalled_s < static_cast<double>(options_.give_up_time.count())) return std::nullopt;
  return fail(ErrorCode::kInternal, "the engine has work and took no step for {:.0f} s", stalled_s);
}

}  // namespace pagoda::server
