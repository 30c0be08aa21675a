#include "server/http/parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>

#include "base/format.h"

namespace pagoda::server::http {
namespace {

namespace beast = boost::beast;
using Error = beast::http::error;

Fault too_large_body(const Limits& limits) {
  return {413, "body_too_large", format("the body is larger than the {} bytes that are taken", limits.body_bytes)};
}

Fault too_large_headers(const Limits& limits) {
  return {431, "headers_too_large",
          format("a header is larger than the {} bytes that are taken, or all are than {}", limits.header_bytes,
                 limits.headers_bytes)};
}

Fault fault_of(const beast::error_code& error, const Limits& limits) {
  if (error == Error::body_limit) return too_large_body(limits);
  if (error == Error::header_limit) return too_large_headers(limits);
  if (error == Error::bad_version) return {505, "http_version", "this server speaks HTTP/1.0 and HTTP/1.1"};
  if (error == Error::bad_content_length || error == Error::bad_transfer_encoding ||
      error == Error::multiple_content_length) {
    return {400, "bad_framing", "Content-Length and Transfer-Encoding do not say plainly where the body ends"};
  }
  if (error == Error::bad_chunk || error == Error::bad_chunk_extension) {
    return {400, "bad_chunk", "the body's chunks are malformed"};
  }
  return {400, "bad_request", "the request is not valid HTTP"};
}

std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// A target as clients of a proxy write it, http://host/path, is the path that it ends with (RFC 9112, 3.2.2).
std::string origin_form(std::string target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!small_letters(target.substr(0, scheme.size())).starts_with(scheme)) continue;
    const std::size_t path = target.find_first_of("/?", scheme.size());
    if (path == std::string::npos) return "/";
    return (target[path] == '?' ? "/" : "") + target.substr(path);
  }
  return target;
}

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

const std::string* Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

HeadBound bound_head(std::string_view bytes, const Limits& limits) {
  std::size_t begin = 0;
  std::size_t lines = 0;
  for (;;) {
    const std::size_t end = bytes.find('\n', begin);
    const std::size_t length = (end == std::string_view::npos ? bytes.size() : end) - begin;
    if (lines == 0 && length > limits.request_line_bytes) {
      return {.fault = Fault{
                  414, "uri_too_long",
                  format("the request line is longer than the {} bytes that are taken", limits.request_line_bytes)}};
    }
    if (lines > 0 && length > limits.header_bytes) return {.fault = too_large_headers(limits)};
    if (end == std::string_view::npos) break;
    if (length == 0 || bytes[end - 1] != '\r') {
      return {.fault = Fault{400, "bad_request", "the lines of a request's head must end with CR and LF"}};
    }
    const bool empty = length == 1;
    begin = end + 1;
    if (begin > limits.request_line_bytes + limits.headers_bytes) return {.fault = too_large_headers(limits)};
    if (empty) return {.bytes = begin};
    if (++lines > limits.num_headers + 1) {
      return {.fault = Fault{431, "too_many_headers",
                             format("the request has more than the {} headers that are taken", limits.num_headers)}};
    }
  }
  if (bytes.size() > limits.request_line_bytes + limits.headers_bytes) return {.fault = too_large_headers(limits)};
  return {};
}

struct RequestParser::Parser {
  beast::http::request_parser<beast::http::string_body> beast;
  Request request;
  bool head_taken = false;
};

RequestParser::RequestParser(const Limits& limits) : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->beast.header_limit(static_cast<std::uint32_t>(limits.request_line_bytes + limits.headers_bytes));
  parser_->beast.body_limit(limits.body_bytes);
}

RequestParser::~RequestParser() = default;

std::size_t RequestParser::put(std::string_view bytes) {
  if (fault_ || done()) return 0;
  if (!head_done()) return put_head(bytes);
  std::size_t taken = 0;
  while (taken < bytes.size() && !parser_->beast.is_done()) {
    beast::error_code error;
    const std::size_t now = parser_->beast.put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += now;
    if (error == Error::need_more) break;
    if (error) {
      fault_ = fault_of(error, limits_);
      break;
    }
    if (now == 0) break;
  }
  // What stands between two chunks is bounded like a header.
  if (!fault_ && !done() && bytes.size() - taken > limits_.header_bytes) {
    fault_ = Fault{400, "bad_chunk", "the body's chunks are malformed"};
  }
  if (done()) parser_->request.body = std::move(parser_->beast.get().body());
  return taken;
}

std::size_t RequestParser::put_head(std::string_view bytes) {
  // Empty lines before a request line are skipped (RFC 9112, 2.2).
  std::size_t skipped = 0;
  while (bytes.substr(skipped).starts_with("\r\n")) skipped += 2;
  bytes.remove_prefix(skipped);
  const HeadBound bound = bound_head(bytes, limits_);
  if (bound.fault) fault_ = bound.fault;
  if (!bound.bytes) return skipped;
  beast::error_code error;
  const std::size_t taken = parser_->beast.put(boost::asio::buffer(bytes.data(), *bound.bytes), error);
  if (error && error != Error::need_more) {
    fault_ = fault_of(error, limits_);
  } else if (!parser_->beast.is_header_done() || taken != *bound.bytes) {
    fault_ = Fault{400, "bad_request", "the request is not valid HTTP"};
  } else {
    take_head();
  }
  return skipped + taken;
}

void RequestParser::take_head() {
  const auto& message = parser_->beast.get();
  Request& request = parser_->request;
  request.method = text_of(message.method_string());
  const std::string target = origin_form(text_of(message.target()));
  const std::size_t query = target.find('?');
  request.path = target.substr(0, query);
  if (query != std::string::npos) request.query = target.substr(query + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(small_letters(text_of(field.name_string())), text_of(field.value()));
  }
  parser_->head_taken = true;
  const auto num_of = [&request](std::string_view name) {
    return std::ranges::count(request.headers, name, &std::pair<std::string, std::string>::first);
  };
  const auto other_coding = [](const auto& header) {
    return header.first == "transfer-encoding" && small_letters(header.second) != "chunked";
  };
  const auto hosts = num_of("host");
  if (hosts > 1 || (hosts == 0 && http_1_1())) {
    fault_ = Fault{400, "bad_host", "the request needs one Host header"};
  } else if (!request.path.starts_with('/') && request.path != "*") {
    fault_ = Fault{400, "bad_target", "the request's target must be a path"};
  } else if (std::ranges::any_of(request.headers, other_coding) || num_of("transfer-encoding") > 1) {
    fault_ = Fault{400, "bad_framing", "the only Transfer-Encoding taken is chunked, alone"};
  } else if (num_of("transfer-encoding") > 0 && !http_1_1()) {  // what stands between may not know it
    fault_ = Fault{400, "bad_framing", "HTTP/1.0 has no Transfer-Encoding"};
  } else if (const auto length = parser_->beast.content_length(); length && *length > limits_.body_bytes) {
    fault_ = too_large_body(limits_);
  }
}

bool RequestParser::head_done() const { return parser_->head_taken; }
bool RequestParser::done() const { return parser_->head_taken && parser_->beast.is_done(); }
Request& RequestParser::request() { return parser_->request; }
bool RequestParser::keep_alive() const { return parser_->beast.keep_alive(); }
bool RequestParser::http_1_1() const { return parser_->beast.get().version() >= 11; }
std::size_t RequestParser::body_bytes() const {
  return done() ? parser_->request.body.size() : parser_->beast.get().body().size();
}

bool RequestParser::expects_continue() const {
  const std::string* const expect = parser_->request.header("expect");
  return expect != nullptr && http_1_1() && small_letters(*expect) == "100-continue";
}

}  // namespace pagoda::server::http
