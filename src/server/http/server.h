// Listens, accepts, and drains: one thread for all connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/limits.h"
#include "server/http/message.h"

namespace pagoda::server::http {

struct Endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0: any free one
  std::string unix_socket{};  ///< a path: in place of host and port
  std::string tls_cert{};     ///< a file with the certificate chain, PEM
  std::string tls_key{};
};

/// Whether a host's name or address, without a port, means this machine alone.
bool is_loopback(std::string_view host);

/// "host" of "host:port", of "[::1]:port" the address between the brackets.
std::string_view host_of(std::string_view authority);

class Server {
 public:
  /// Takes the address and the signals; nothing is accepted yet. Errors: kIoFailed, kFileUnreadable for certificate and
  /// key.
  static Result<std::unique_ptr<Server>> bind(const Endpoint& endpoint, const Limits& limits);
  ~Server();

  /// "http://127.0.0.1:8080", with the port in use.
  const std::string& address() const;

  /// Whether that is an address of this machine alone, however it was written. A Unix socket is none.
  bool is_loopback() const;

  /// Serves until it was told to drain and the last connection has closed. SIGTERM and SIGINT drain; the second one
  /// ends at once. While it drains nothing new is accepted, and answers that run past `patience` are cut short.
  /// `on_drain` is called once when that begins, `every_second` once a second, both on the calling thread, which is the
  /// connections'. Once. When it returns, all connections and answers are destroyed.
  struct Hooks {
    std::function<void()> on_drain;
    std::function<void()> on_second_signal = [] {};  ///< of what waits for nothing any more
    std::function<void()> every_second;
  };
  void run(Routes& routes, std::chrono::milliseconds patience, Hooks hooks);

  /// From any thread: drain, with this patience in place of run's.
  void drain(std::chrono::milliseconds patience);

  /// From any thread: runs a task on the connections' thread, once `run` is there; drops it if `run` is over.
  void post(std::function<void()> task);

  std::int64_t num_connections() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pagoda::server::http
