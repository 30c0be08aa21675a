#include "server/http/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <array>
#include <ctime>
#include <new>

#include "base/format.h"

namespace pagoda::server::http {
namespace {

constexpr std::size_t kMostInput = 64 << 10;                 // that waits while an answer is written
constexpr auto kLookAfter = std::chrono::milliseconds(200);  // for a client who has sent more than that

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 417:
      return "Expectation Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

/// "Sun, 06 Nov 1994 08:49:37 GMT", made once a second.
const std::string& http_date() {
  static thread_local std::time_t made = 0;
  static thread_local std::string text;
  const std::time_t now = std::time(nullptr);
  if (now != made) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 40> buffer;
    text.assign(buffer.data(), std::strftime(buffer.data(), buffer.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts));
    made = now;
  }
  return text;
}

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

bool has_body(int status) { return status != 204 && status != 304 && status >= 200; }

}  // namespace

/// One request and how its response stands.
struct Connection::Exchange {
  Request request;  // without its body
  bool http_1_1 = true;
  bool keep_alive = true;
  bool chunked = false;
  int status = 0;
  std::size_t bytes = 0;
  Clock::time_point begin = Clock::now();

  std::string head(const Response& response, const Headers& more, bool streams) {
    status = response.status;
    chunked = streams && http_1_1;
    if (streams && !http_1_1) keep_alive = false;  // only the end of the connection can end the body
    std::string out = format("HTTP/1.1 {} {}\r\ndate: {}\r\n", status, reason_of(status), http_date());
    if (has_body(status)) out += format("content-type: {}\r\n", response.content_type);
    if (chunked) {
      out += "transfer-encoding: chunked\r\n";
    } else if (!streams && has_body(status)) {
      out += format("content-length: {}\r\n", response.body.size());
    }
    for (const Headers* const headers : {&more, &response.headers}) {
      for (const auto& [name, value] : *headers) out += format("{}: {}\r\n", name, value);
    }
    out += format("x-request-id: {}\r\n", request.id);
    out += keep_alive ? "" : "connection: close\r\n";
    if (keep_alive && !http_1_1) out += "connection: keep-alive\r\n";
    out += "\r\n";
    return out;
  }

  Routes::End end(bool complete) const {
    Routes::End out;
    out.status = status;
    out.bytes = bytes;
    out.complete = complete;
    out.ms = ms_since(begin);
    return out;
  }

  void add(std::string& out, std::string_view data) const {
    if (data.empty() || request.method == "HEAD") return;
    if (chunked) out += format("{:x}\r\n", data.size());
    out += data;
    if (chunked) out += "\r\n";
  }
};

Connection::Connection(std::unique_ptr<Transport> transport, const boost::asio::any_io_executor& executor,
                       std::string peer, Shared& shared)
    : transport_(std::move(transport)),
      executor_(executor),
      peer_(std::move(peer)),
      shared_(shared),
      event_(executor),
      space_(executor),
      wake_(std::make_shared<WakeNode>()) {
  wake_->woken = [this] { event_.notify(); };
}

Connection::~Connection() {
  wake_->woken = {};
  count_body(0);
}

void Connection::count_body(std::size_t bytes) {
  shared_.bodies_bytes += bytes - body_bytes_;
  body_bytes_ = bytes;
}

void Connection::notify() {
  if (shared_.draining && !open_) return transport_->close();  // a handshake has no request yet
  event_.notify();
}

void Connection::close() {
  discard_ = true;
  space_.notify();
  transport_->close();
}

Task<void> Connection::run() {
  const auto self = shared_from_this();
  {
    const Deadline deadline(*transport_, executor_, shared_.limits.header_time);
    open_ = co_await transport_->handshake();
  }
  if (open_) {
    boost::asio::co_spawn(
        executor_, [self] { return self->read_input(); }, boost::asio::detached);
    if (transport_->wants_no_tls()) {
      RequestParser none(shared_.limits);
      co_await refuse(400, "tls_wanted", "this address speaks TLS: ask it with https://", none);
    } else {
      while (co_await serve_one()) {
      }
    }
    co_await linger();
  }
  transport_->close();
}

/// Reads ahead all the time, so that a client that leaves is noticed while its answer is made.
Task<void> Connection::read_input() {
  const auto self = shared_from_this();
  while (co_await transport_->read(input_)) {
    if (discard_) input_.clear();
    event_.notify();
    while (input_.size() >= kMostInput && !discard_) co_await space_.wait_until(Clock::time_point::max());
  }
  input_ended_ = true;
  event_.notify();
}

Task<bool> Connection::serve_one() {
  bool again = false;
  {
    RequestParser parser(shared_.limits);
    if (co_await read_request(parser)) again = co_await respond(parser);
  }
  count_body(0);
  co_return again;
}

Clock::time_point Connection::next_deadline(const RequestParser& parser, bool begun) const {
  const Limits& limits = shared_.limits;
  return Clock::now() + (parser.head_done() ? limits.body_time : begun ? limits.header_time : limits.idle_time);
}

/// False: there is no request to answer, and the connection is over.
Task<bool> Connection::read_request(RequestParser& parser) {
  bool begun = false;
  bool checked = false;
  Clock::time_point deadline = next_deadline(parser, false);
  for (;;) {
    const std::size_t taken = parser.put(input_);
    input_.erase(0, taken);
    space_.notify();
    if (!begun && (taken > 0 || !input_.empty())) {
      begun = true;
      deadline = next_deadline(parser, true);
    }
    if (parser.fault()) {
      const Fault fault = *parser.fault();
      co_return co_await refuse(fault.status, fault.code, fault.sentence, parser);
    }
    if (parser.head_done() && !checked) {
      checked = true;
      if (!co_await check_head(parser)) co_return false;
    }
    if (parser.head_done()) count_body(parser.body_bytes());
    if (body_bytes_ > 0 && shared_.bodies_bytes > shared_.limits.all_bodies_bytes) {
      co_return co_await refuse(503, "overloaded", "the server reads too many large requests now", parser);
    }
    if (parser.done()) co_return true;
    if (taken > 0 && parser.head_done()) deadline = next_deadline(parser, true);
    if (taken > 0) continue;
    if (input_ended_ || (shared_.draining && !begun)) co_return false;
    deadline = std::min(deadline, shared_.reads_until);
    const bool notified = co_await event_.wait_until(deadline);
    if (notified || Clock::now() < deadline) continue;
    if (!begun) co_return false;
    if (shared_.draining) co_return co_await refuse(503, "shutting_down", "the server is shutting down", parser);
    co_return co_await refuse(408, "request_timeout", "the request did not come in time", parser);
  }
}

/// The head is there and the body is not read yet. False: the request was refused, and the connection is over.
Task<bool> Connection::check_head(RequestParser& parser) {
  Request& request = parser.request();
  request.peer = peer_;
  request.id = format("req-{:08x}", ++shared_.num_requests);
  refusal_ = shared_.routes->refuse(request);
  if (parser.done()) co_return true;
  if (refusal_) co_return co_await refuse(std::move(*refusal_), parser);
  // Of HTTP/1.0 it is to be ignored (RFC 9110, 10.1.1).
  if (request.header("expect") == nullptr || !parser.http_1_1()) co_return true;
  if (!parser.expects_continue()) {
    co_return co_await refuse(417, "expectation_failed", "the only expectation met is 100-continue", parser);
  }
  co_return co_await transport_->write("HTTP/1.1 100 Continue\r\n\r\n", shared_.limits.write_time);
}

Task<bool> Connection::refuse(int status, std::string_view code, std::string_view sentence, RequestParser& parser) {
  Response response = shared_.routes->error(status, code, sentence);
  co_return co_await refuse(std::move(response), parser);
}

/// Answers without the request's body, after which nothing that comes could be told from it: the connection is over,
/// and what is returned says so.
Task<bool> Connection::refuse(Response response, RequestParser& parser) {
  discard_ = true;
  space_.notify();
  Exchange exchange;
  if (parser.head_done()) exchange.request = parser.request();
  exchange.request.peer = peer_;
  if (exchange.request.id.empty()) exchange.request.id = format("req-{:08x}", ++shared_.num_requests);
  exchange.request.body.clear();
  exchange.keep_alive = false;
  Piece piece;
  piece.head = std::move(response);
  piece.last = true;
  const bool sent = co_await send(std::move(piece), exchange, false);
  shared_.routes->finished(exchange.request, exchange.end(sent));
  co_return false;
}

Response Connection::response_to(const std::exception& thrown) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    return shared_.routes->error(503, "overloaded", "the server has no memory for this request now");
  }
  return shared_.routes->error(500, "internal_error", "the server failed at this request");
}

/// The routes' answer; what they throw becomes a response.
std::unique_ptr<Answer> Connection::answer_of(Request request) {
  try {
    if (refusal_) return std::make_unique<Ready>(std::move(*std::exchange(refusal_, {})));
    return shared_.routes->answer(std::move(request));
  } catch (const std::exception& thrown) {
    return std::make_unique<Ready>(response_to(thrown));
  }
}

/// False: the connection is over.
Task<bool> Connection::respond(RequestParser& parser) {
  Request& request = parser.request();
  Exchange exchange;
  std::string body = std::move(request.body);
  request.body.clear();
  exchange.request = request;
  request.body = std::move(body);
  exchange.http_1_1 = parser.http_1_1();
  exchange.keep_alive = parser.keep_alive() && !shared_.draining;
  bool complete = false;
  Routes::End end;
  {
    const std::unique_ptr<Answer> answer = answer_of(std::move(request));
    answer->start([wakes = shared_.wakes, node = wake_] { wakes->wake(node); });
    complete = co_await follow(*answer, exchange);
    end = exchange.end(complete);
    end.log_members = answer->log_members();
  }
  shared_.routes->finished(exchange.request, end);
  co_return complete&& exchange.keep_alive;
}

Piece Connection::next_of(Answer& answer, bool cut, const Exchange& exchange) {
  try {
    return cut ? answer.cut_short() : answer.next();
  } catch (const std::exception& thrown) {
    Piece piece;
    piece.last = true;
    if (exchange.status == 0) piece.head = response_to(thrown);
    return piece;
  }
}

/// Of one who has sent so much behind its request that nobody reads on, only its socket tells.
bool Connection::client_left() { return input_ended_ || (input_.size() >= kMostInput && transport_->ended()); }

/// Sends an answer as it comes. False: the client has gone, or takes nothing.
Task<bool> Connection::follow(Answer& answer, Exchange& exchange) {
  const auto quiet = shared_.limits.keep_alive_time;
  Clock::time_point last_sent = Clock::now();
  for (;;) {
    const bool cut = Clock::now() >= shared_.cut_off;
    Piece piece = next_of(answer, cut, exchange);
    if (!answer.holds_body()) count_body(0);
    if (piece.empty()) {
      if (client_left()) co_return false;
      Clock::time_point until = std::min(last_sent + quiet, shared_.cut_off);
      if (input_.size() >= kMostInput) until = std::min(until, Clock::now() + kLookAfter);
      co_await event_.wait_until(until);
      if (Clock::now() < last_sent + quiet) continue;
      piece = answer.keep_alive();
      last_sent = Clock::now();
      if (piece.empty()) continue;
    }
    const bool last = piece.last;
    if (shared_.draining) exchange.keep_alive = false;
    if (!co_await send(std::move(piece), exchange, answer.streams())) co_return false;
    last_sent = Clock::now();
    if (last) co_return true;
    if (client_left()) co_return false;
  }
}

Task<bool> Connection::send(Piece piece, Exchange& exchange, bool streams) {
  constexpr std::size_t kLarge = 256 << 10;
  std::string out;
  if (piece.head) {
    std::string& body = piece.head->body;
    out = exchange.head(*piece.head, shared_.routes->headers_for(exchange.request), streams);
    if (!has_body(exchange.status)) body.clear();
    if (body.size() > kLarge && !streams && exchange.request.method != "HEAD") {  // not a second time in memory
      exchange.bytes += out.size() + body.size();
      if (!co_await transport_->write(out, shared_.limits.write_time)) co_return false;
      co_return co_await transport_->write(body, shared_.limits.write_time);
    }
    exchange.add(out, body);
  }
  exchange.add(out, piece.data);
  if (piece.last && exchange.chunked && exchange.request.method != "HEAD") out += "0\r\n\r\n";
  exchange.bytes += out.size();
  co_return co_await transport_->write(out, shared_.limits.write_time);
}

/// Lets the client read what was sent: a socket that is closed with input unread makes the client's system throw the
/// response away.
Task<void> Connection::linger() {
  constexpr auto kSilence = std::chrono::seconds(2);
  constexpr auto kAltogether = std::chrono::seconds(30);  // of a client that goes on sending what is thrown away
  constexpr auto kWhenDraining = std::chrono::milliseconds(500);
  discard_ = true;
  input_.clear();
  space_.notify();
  co_await transport_->finish();
  const Clock::time_point begin = Clock::now();
  Clock::time_point heard = begin;
  while (!input_ended_) {
    const Clock::time_point end =
        shared_.draining ? begin + kWhenDraining : std::min(heard + kSilence, begin + kAltogether);
    if (Clock::now() >= end) break;
    if (co_await event_.wait_until(end)) heard = Clock::now();
  }
}

}  // namespace pagoda::server::http
