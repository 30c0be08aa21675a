// From bytes to a request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/limits.h"
#include "server/http/message.h"

namespace pagoda::server::http {

/// Why a request cannot be read: the response's status, the API's code for it, and a sentence that repeats none of it.
struct Fault {
  int status = 400;
  std::string_view code{};
  std::string sentence{};
};

/// Reads one request out of bytes that come in parts, however they are cut. Bounds the head by `limits` before it is
/// parsed, and the body while it comes.
class RequestParser {
 public:
  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  /// Takes what it can from the front of `bytes` and returns how many that were; the rest has to be offered again with
  /// more behind it. Stops at the end of the head, and at the end of the request. After a fault nothing more is taken.
  std::size_t put(std::string_view bytes);

  const std::optional<Fault>& fault() const { return fault_; }
  bool head_done() const;  ///< `request` holds all but the body
  bool done() const;

  /// Valid once the head is done; the body once all is.
  Request& request();

  bool keep_alive() const;         ///< the client can take another response on this connection
  bool http_1_1() const;           ///< and pieces of unknown length
  bool expects_continue() const;   ///< waits for "100 Continue" before it sends the body
  std::size_t body_bytes() const;  ///< that came so far

 private:
  struct Parser;

  std::size_t put_head(std::string_view bytes);
  void take_head();

  const Limits limits_;
  std::unique_ptr<Parser> parser_;
  std::optional<Fault> fault_;
};

/// How many of `bytes` are a whole head; none if its end has not come yet. A limit that is broken is a fault as soon as
/// it can be seen. For RequestParser and its tests.
struct HeadBound {
  std::optional<std::size_t> bytes{};
  std::optional<Fault> fault{};
};
HeadBound bound_head(std::string_view bytes, const Limits& limits);

}  // namespace pagoda::server::http
