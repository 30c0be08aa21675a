// What HTTP carries, as plain values: the seam between the connections, which know no route, and the routes, which
// know no socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda::server::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The head of a request, and its body once that was read.
struct Request {
  std::string method;
  std::string path;  ///< without the query
  std::string query;
  Headers headers;  ///< names in small letters
  std::string body;
  std::string peer;  ///< "127.0.0.1:51234", or "unix"
  std::string id;    ///< of this request, for logs and the x-request-id of the response

  /// The first header of that name (in small letters), or nothing.
  const std::string* header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers;   ///< further ones
  std::string body;  ///< whole; of a streamed response, what comes first
};

/// What an answer has to send now.
struct Piece {
  std::optional<Response> head;  ///< once, before any data
  std::string data;              ///< only after a head whose answer streams
  bool last = false;             ///< nothing follows

  bool empty() const { return !head && data.empty() && !last; }
};

/// An answer on its way to one client. Used by one thread at a time. Destroying it ends its work: the client has gone
/// or has all.
class Answer {
 public:
  virtual ~Answer() = default;

  /// `wake` is to be called, from any thread, whenever `next` may have more; it does not block.
  virtual void start(std::function<void()> wake) = 0;

  /// What is there now; empty if there is nothing yet.
  virtual Piece next() = 0;

  /// Nothing was sent for a while: what keeps the client and what lies between from giving up, if there is such a
  /// thing.
  virtual Piece keep_alive() { return {}; }

  /// Members for the line of the request log, as `"prompt_tokens":7,`; empty if there is nothing to tell.
  virtual std::string log_members() const { return {}; }

  /// The server has to go now: the rest of the answer, which says so.
  virtual Piece cut_short() = 0;

  /// Whether data follow the head in pieces; asked when there is a head.
  virtual bool streams() const { return false; }

  /// Whether the request's body is still kept: until then it counts among all bodies.
  virtual bool holds_body() const { return false; }
};

/// An answer that is there at once.
class Ready final : public Answer {
 public:
  explicit Ready(Response response) : response_(std::move(response)) {}
  void start(std::function<void()> /*wake*/) override {}
  Piece next() override { return {.head = std::move(response_), .data = {}, .last = true}; }
  Piece cut_short() override { return next(); }

 private:
  Response response_;
};

/// The HTTP layer asks it about each request.
class Routes {
 public:
  virtual ~Routes() = default;

  /// Looks at the head alone, before any of the body is read: a response refuses the request. Quick; on the
  /// connections' thread.
  virtual std::optional<Response> refuse(const Request& request) = 0;

  /// Answers a request. Quick; on the connections' thread: long work is handed to `workers` inside.
  virtual std::unique_ptr<Answer> answer(Request request) = 0;

  /// A response made by the HTTP layer itself (a limit, a malformed head), in the words of this API.
  virtual Response error(int status, std::string_view code, std::string_view sentence) = 0;

  /// Headers for every response to this request.
  virtual Headers headers_for(const Request& request) = 0;

  /// An answer is over.
  struct End {
    int status = 0;  ///< as sent; 0: nothing was
    std::size_t bytes = 0;
    bool complete = false;  ///< false: the client went before the end
    double ms = 0;
    std::string log_members{};  ///< the answer's
  };
  virtual void finished(const Request& request, const End& end) = 0;
};

}  // namespace pagoda::server::http
