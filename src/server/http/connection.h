// One client's connection: reads requests, has them answered, writes what comes.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "server/http/limits.h"
#include "server/http/message.h"
#include "server/http/parser.h"
#include "server/http/transport.h"
#include "server/http/wake_list.h"

namespace pagoda::server::http {

/// What all connections of a server share. On the connections' thread only.
struct Shared {
  const Limits limits;
  Routes* routes = nullptr;
  std::shared_ptr<WakeList> wakes{};
  bool draining = false;
  Clock::time_point cut_off = Clock::time_point::max();      ///< answers end here
  Clock::time_point reads_until = Clock::time_point::max();  ///< what is no whole request then is not waited for
  std::size_t bodies_bytes = 0;                              ///< of requests that are being read, or wait for a worker
  std::uint64_t num_requests = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<Transport> transport, const boost::asio::any_io_executor& executor, std::string peer,
             Shared& shared);
  ~Connection();

  /// Returns when the connection is over.
  Task<void> run();

  /// Something that all connections look at has changed.
  void notify();
  /// Ends it where `run` did not come to its end.
  void close();

 private:
  struct Exchange;

  Task<void> read_input();
  Task<bool> serve_one();
  Task<bool> read_request(RequestParser& parser);
  Task<bool> check_head(RequestParser& parser);
  Task<bool> respond(RequestParser& parser);
  Task<bool> follow(Answer& answer, Exchange& exchange);
  Task<bool> refuse(int status, std::string_view code, std::string_view sentence, RequestParser& parser);
  Task<bool> refuse(Response response, RequestParser& parser);
  Task<bool> send(Piece piece, Exchange& exchange, bool streams);
  Task<void> linger();
  bool client_left();
  Response response_to(const std::exception& thrown);
  std::unique_ptr<Answer> answer_of(Request request);
  Piece next_of(Answer& answer, bool cut, const Exchange& exchange);
  Clock::time_point next_deadline(const RequestParser& parser, bool begun) const;
  void count_body(std::size_t bytes);

  std::unique_ptr<Transport> transport_;
  boost::asio::any_io_executor executor_;
  const std::string peer_;
  Shared& shared_;
  Signal event_;       ///< input came or ended, the answer has news, or the server drains
  Signal space_;       ///< the input was taken
  bool open_ = false;  ///< the handshake is over
  std::shared_ptr<WakeNode> wake_;
  std::string input_;
  bool input_ended_ = false;
  bool discard_ = false;               ///< input is thrown away
  std::optional<Response> refusal_{};  ///< of a request without a body: its response, after which others may follow
  std::size_t body_bytes_ = 0;
};

}  // namespace pagoda::server::http
