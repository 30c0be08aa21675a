#include "server/client/chat_client.h"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <chrono>
#include <mutex>

#include "server/json/json.h"

namespace pagoda::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;
using Clock = std::chrono::steady_clock;

struct Url {
  bool tls = false;
  std::string host;
  std::string port;
  std::string path;  ///< before /v1
};

Result<Url> parse_url(const std::string& url) {
  Url out;
  std::string_view rest = url;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
    out.tls = true;
  } else {
    return fail_param(ErrorCode::kInvalidArgument, "server", "--server wants http://HOST:PORT or https://HOST");
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  out.path = rest.substr(slash);
  while (out.path.ends_with('/')) out.path.pop_back();
  if (out.path.ends_with("/v1")) out.path.resize(out.path.size() - 3);
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    out.port = authority.substr(colon + 1);
    authority = authority.substr(0, colon);
  } else {
    out.port = out.tls ? "443" : "80";
  }
  if (authority.starts_with('[') && authority.ends_with(']')) authority = authority.substr(1, authority.size() - 2);
  out.host = authority;
  unsigned port = 0;
  const auto [end, fault] = std::from_chars(out.port.data(), out.port.data() + out.port.size(), port);
  const bool is_port = fault == std::errc{} && end == out.port.data() + out.port.size() && port > 0 && port < 65536;
  const bool wrong = out.host.empty() || !is_port || url.find_first_of(" \r\n?#@") != std::string::npos;
  if (wrong)
    return fail_param(ErrorCode::kInvalidArgument, "server", "--server wants http://HOST:PORT or https://HOST");
  return out;
}

/// What a server's error says, if it speaks this protocol.
std::string error_text(const Json& json) {
  const Json* const error = json.find("error");
  const Json* const message = error == nullptr ? nullptr : error->find("message");
  return message != nullptr && message->is_string() ? message->text : "";
}

std::int64_t whole(const Json& json, std::string_view name) {
  const Json* const value = json.find(name);
  return value == nullptr ? 0 : value->integer().value_or(0);
}

}  // namespace

struct ChatClient::State {
  /// One request; `on_body` gets the body as it comes. Returns the status.
  Result<int> request(std::string_view method, const std::string& path, const std::string& body,
                      const std::function<void(std::string_view)>& on_body);
  template <class Stream>
  Result<int> exchange(Stream& stream, const std::string& text, const std::function<void(std::string_view)>& on_body);
  Error unreachable(const std::string& why) const {
    return fail(ErrorCode::kIoFailed, "{}:{} does not answer: {}", url.host, url.port, why);
  }

  Url url;
  std::string api_key;
  std::string model;

  std::mutex mutex;
  int descriptor = -1;  ///< of the request that runs
  std::atomic<bool> cancelled{false};
};

template <class Stream>
Result<int> ChatClient::State::exchange(Stream& stream, const std::string& text,
                                        const std::function<void(std::string_view)>& on_body) {
  SystemError error;
  asio::write(stream, asio::buffer(text), error);
  if (error) return unreachable(error.message());
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  http::read_header(stream, buffer, parser, error);
  while (!error && !parser.is_done()) {
    std::string part;
    part.swap(parser.get().body());
    if (!part.empty()) on_body(part);
    http::read_some(stream, buffer, parser, error);
  }
  if (!parser.get().body().empty()) on_body(parser.get().body());
  if (!parser.is_done() && !cancelled) return unreachable(error ? error.message() : "the connection ended");
  return static_cast<int>(parser.get().result_int());
}

Result<int> ChatClient::State::request(std::string_view method, const std::string& path, const std::string& body,
                                       const std::function<void(std::string_view)>& on_body) {
  asio::io_context io;
  SystemError error;
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(url.host, url.port, error);
  if (error) return unreachable(error.message());
  asio::ssl::context context(asio::ssl::context::tls_client);
  context.set_default_verify_paths(error);
  asio::ssl::stream<Tcp::socket> stream(io, context);
  asio::connect(stream.next_layer(), found, error);
  if (error) return unreachable(error.message());
  {
    const std::scoped_lock lock(mutex);
    descriptor = stream.next_layer().native_handle();
  }
  std::string text = format("{} {}{} HTTP/1.1\r\nhost: {}:{}\r\nconnection: close\r\naccept: */*\r\n", method, url.path,
                            path, url.host, url.port);
  if (!api_key.empty()) text += format("authorization: Bearer {}\r\n", api_key);
  if (!body.empty()) text += format("content-type: application/json\r\ncontent-length: {}\r\n", body.size());
  text += "\r\n" + body;
  Result<int> status = 0;
  if (url.tls) {
    stream.set_verify_mode(asio::ssl::verify_peer);
    stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
    SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str());
    stream.handshake(asio::ssl::stream_base::client, error);
    status = error ? Result<int>(unreachable(error.message())) : exchange(stream, text, on_body);
  } else {
    status = exchange(stream.next_layer(), text, on_body);
  }
  const std::scoped_lock lock(mutex);
  descriptor = -1;
  return status;
}

ChatClient::ChatClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatClient::ChatClient(ChatClient&&) noexcept = default;
ChatClient::~ChatClient() = default;

const std::string& ChatClient::model() const { return state_->model; }

void ChatClient::cancel() {
  state_->cancelled = true;
  const std::scoped_lock lock(state_->mutex);
  if (state_->descriptor >= 0) ::shutdown(state_->descriptor, SHUT_RDWR);
}

Result<ChatClient> ChatClient::connect(const std::string& url, std::string api_key) {
  auto state = std::make_unique<State>();
  state->url = PAGODA_TRY(parse_url(url));
  state->api_key = std::move(api_key);
  std::string body;
  const int status =
      PAGODA_TRY(state->request("GET", "/v1/models", "", [&body](std::string_view part) { body += part; }));
  const Result<Json> json = parse_json(body);
  if (status != 200) {
    const std::string said = json.ok() ? error_text(*json) : "";
    return fail(ErrorCode::kIoFailed, "{} refuses: {}", url, said.empty() ? format("status {}", status) : said);
  }
  const Json* const list = json.ok() ? json->find("data") : nullptr;
  const Json* const id = list != nullptr && !list->items.empty() ? list->items.front().find("id") : nullptr;
  if (id == nullptr || !id->is_string()) return fail(ErrorCode::kIoFailed, "{} lists no model", url);
  state->model = id->text;
  return ChatClient(std::move(state));
}

namespace {

std::string chat_body(const std::string& model, std::span<const ChatTurn> turns, const SamplingParams& sampling) {
  JsonWriter out;
  out.open_object().member("model", model).key("messages").open_array();
  for (const ChatTurn& turn : turns) {
    out.open_object().member("role", turn.role).member("content", turn.content).close_object();
  }
  out.close_array().member("stream", true);
  out.key("stream_options").open_object().member("include_usage", true).close_object();
  if (sampling.max_tokens) out.member("max_tokens", *sampling.max_tokens);
  if (sampling.temperature) out.member("temperature", *sampling.temperature);
  if (sampling.top_k) out.member("top_k", *sampling.top_k);
  if (sampling.top_p) out.member("top_p", *sampling.top_p);
  if (sampling.min_p) out.member("min_p", *sampling.min_p);
  if (sampling.repetition_penalty) out.member("repetition_penalty", *sampling.repetition_penalty);
  if (sampling.seed) out.member("seed", static_cast<std::int64_t>(*sampling.seed));
  if (sampling.ignore_eos) out.member("ignore_eos", true);
  if (!sampling.stop.empty()) {
    out.key("stop").open_array();
    for (const std::string& stop : sampling.stop) out.value(stop);
    out.close_array();
  }
  out.close_object();
  return out.take();
}

/// Takes the events of a stream apart, however they come in pieces.
class EventReader {
 public:
  template <class OnData>
  void push(std::string_view part, const OnData& on_data) {
    text_ += part;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line = std::string_view(text_).substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("data:")) on_data(line.substr(line.starts_with("data: ") ? 6 : 5));
    }
    text_.erase(0, begin);
  }
  const std::string& rest() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

Result<ChatAnswer> ChatClient::ask(std::span<const ChatTurn> turns, const SamplingParams& sampling,
                                   const std::function<void(Channel, std::string_view)>& on_text) {
  ChatAnswer answer;
  EventReader events;
  std::string failure, whole_body;
  const Clock::time_point begin = Clock::now();
  const auto passed = [begin] { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); };
  const auto show = [&](const Json& delta, const char* name, Channel channel) {
    const Json* const text = delta.find(name);
    if (text == nullptr || !text->is_string() || text->text.empty()) return;
    if (answer.first_token_ms == 0) answer.first_token_ms = passed();
    if (channel == Channel::kContent) answer.content += text->text;
    on_text(channel, text->text);
  };
  const auto take = [&](std::string_view data) {
    const Result<Json> chunk = parse_json(data);
    if (!chunk.ok()) return;  // [DONE]
    if (std::string said = error_text(*chunk); !said.empty()) failure = std::move(said);
    if (const Json* const usage = chunk->find("usage"); usage != nullptr && usage->is_object()) {
      answer.usage = {.prompt_tokens = whole(*usage, "prompt_tokens"),
                      .completion_tokens = whole(*usage, "completion_tokens")};
      if (const Json* const details = usage->find("prompt_tokens_details")) {
        answer.usage.cached_tokens = whole(*details, "cached_tokens");
      }
    }
    const Json* const choices = chunk->find("choices");
    if (choices == nullptr || choices->items.empty()) return;
    const Json& choice = choices->items.front();
    if (const Json* const delta = choice.find("delta")) {
      show(*delta, "reasoning_content", Channel::kReasoning);
      show(*delta, "content", Channel::kContent);
    }
    const Json* const finish = choice.find("finish_reason");
    if (finish != nullptr && finish->is_string()) answer.finish_reason = finish->text;
  };
  state_->cancelled = false;
  const int status = PAGODA_TRY(state_->request("POST", "/v1/chat/completions",
                                                chat_body(state_->model, turns, sampling), [&](std::string_view part) {
                                                  whole_body += whole_body.size() < 65536 ? part : "";
                                                  events.push(part, take);
                                                }));
  if (status != 200 && !state_->cancelled) {
    const Result<Json> json = parse_json(whole_body);
    failure = json.ok() ? error_text(*json) : "";
    if (failure.empty()) failure = format("the server answers with status {}", status);
  }
  if (failure.empty() && answer.finish_reason.empty() && !state_->cancelled) {
    failure = "the answer ended before the server said that it is whole";
  }
  if (!failure.empty()) return fail(ErrorCode::kIoFailed, "{}", failure);
  answer.total_ms = passed();
  return answer;
}

}  // namespace pagoda::server
