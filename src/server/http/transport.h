// A connected socket, plain or with TLS, seen as two streams of bytes. All on the connections' thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace pagoda::server::http {

using Socket = boost::asio::generic::stream_protocol::socket;
using Clock = std::chrono::steady_clock;
template <class T>
using Task = boost::asio::awaitable<T>;

/// One task waits; whatever happens to its connection wakes it.
class Signal {
 public:
  explicit Signal(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  /// Returns at the next `notify`, or at once if there was one since the last wait; false: the time came first.
  Task<bool> wait_until(Clock::time_point time);
  void notify();

 private:
  boost::asio::steady_timer timer_;
  bool set_ = false;
};

class Transport {
 public:
  virtual ~Transport() = default;

  /// False: the client speaks no TLS that we take.
  virtual Task<bool> handshake() = 0;

  /// After the handshake: this address speaks TLS, and the client speaks HTTP without it, in which it can be told so.
  virtual bool wants_no_tls() const { return false; }

  /// Appends what comes to `into`; false: nothing comes any more.
  virtual Task<bool> read(std::string& into) = 0;

  /// Whether the client sends no more, though what it has sent may not be read yet.
  virtual bool ended() = 0;

  /// False: the client takes nothing any more. A slice of 64 KiB that is not taken within `patience` ends it too.
  virtual Task<bool> write(std::string_view bytes, std::chrono::milliseconds patience) = 0;

  /// Tells the client that nothing more comes.
  virtual Task<void> finish() = 0;

  /// Ends what waits in the functions above.
  virtual void close() = 0;
};

/// Closes a transport if it is not destroyed in time. A timer that has just run out can no longer be cancelled, and its
/// handler comes when all else may be gone: it looks at what the two share.
class Deadline {
 public:
  Deadline(Transport& transport, const boost::asio::any_io_executor& executor, std::chrono::milliseconds patience);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  boost::asio::steady_timer timer_;
  const std::shared_ptr<Transport*> transport_;
};

std::unique_ptr<Transport> plain_transport(Socket socket);
std::unique_ptr<Transport> tls_transport(Socket socket, boost::asio::ssl::context& context);

}  // namespace pagoda::server::http
