#include "server/http/server.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_set>

#include "server/http/connection.h"

namespace pagoda::server::http {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

constexpr int kBacklog = 4096;

/// Which socket a path names now; nothing for what is no socket.
std::optional<std::pair<dev_t, ino_t>> socket_at(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

/// A socket that a killed server left behind is no server: nobody answers there. Connecting to any other file is
/// refused just the same, and that file is not ours to remove.
void remove_dead_socket(asio::io_context& io, const std::string& path) {
  if (!socket_at(path)) return;
  Error error;
  Local::socket probe(io);
  probe.connect(Local::endpoint(path), error);
  if (error == asio::error::connection_refused) ::unlink(path.c_str());
}

Result<asio::generic::stream_protocol::endpoint> find_address(asio::io_context& io, const Endpoint& wanted) {
  if (!wanted.unix_socket.empty()) {
    if (wanted.unix_socket.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return fail(ErrorCode::kInvalidArgument, "the path of a Unix socket has at most {} bytes",
                  sizeof(sockaddr_un{}.sun_path) - 1);
    }
    remove_dead_socket(io, wanted.unix_socket);
    return asio::generic::stream_protocol::endpoint(Local::endpoint(wanted.unix_socket));
  }
  Error error;
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(wanted.host, std::to_string(wanted.port), Tcp::resolver::passive, error);
  if (error || found.empty()) {
    return fail(ErrorCode::kIoFailed, "{} is no address of this machine: {}", wanted.host, error.message());
  }
  return asio::generic::stream_protocol::endpoint(found.begin()->endpoint());
}

std::string name_of(const Tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? format("[{}]:{}", host, endpoint.port()) : format("{}:{}", host, endpoint.port());
}

/// The address and port of an IP endpoint.
std::optional<Tcp::endpoint> tcp_of(const asio::generic::stream_protocol::endpoint& endpoint) {
  const int family = endpoint.protocol().family();
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  Tcp::endpoint out;
  if (endpoint.size() > out.capacity()) return std::nullopt;
  std::memcpy(out.data(), endpoint.data(), endpoint.size());
  out.resize(endpoint.size());
  return out;
}

/// Also of an IPv4 address that is written as one of IPv6.
bool is_loopback_address(const asio::ip::address& address) {
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback() : address.is_loopback();
}

}  // namespace

bool is_loopback(std::string_view host) {
  Error error;
  const auto address = asio::ip::make_address(host, error);
  return error ? host == "localhost" || host.ends_with(".localhost") : is_loopback_address(address);
}

std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

/// What destroys the connections when it is destroyed.
struct Loop {
  asio::io_context io{1};
  Acceptor acceptor{io};
  asio::signal_set signals{io};
  asio::steady_timer tick{io};
  asio::steady_timer cut{io};
};

/// Other threads reach the loop through it, as long as there is one.
struct Door {
  void post(std::function<void()> task) {
    const std::scoped_lock lock(mutex);
    if (io != nullptr) asio::post(*io, std::move(task));
  }
  void close() {
    const std::scoped_lock lock(mutex);
    io = nullptr;
  }

  std::mutex mutex;
  asio::io_context* io = nullptr;
};

struct Server::State {
  explicit State(const Limits& limits) : shared{.limits = limits} { door->io = &loop->io; }

  Task<void> accept();
  Task<void> serve(Socket socket, std::string peer);
  Task<void> turn_away(Socket socket);
  void begin_drain(std::chrono::milliseconds patience);
  void leave_address();
  void on_signal();
  void every_second();
  void notify_all();
  std::string peer_of(const Socket& socket) const;

  Shared shared;
  std::unordered_set<Connection*> connections;
  std::int64_t num_connections = 0;
  std::int64_t num_turned_away = 0;  ///< and not closed yet
  Hooks hooks;
  std::chrono::milliseconds patience{0};
  std::string unix_path;
  std::optional<std::pair<dev_t, ino_t>> unix_socket;  ///< ours: another server may have taken the path since
  std::string address;
  bool is_loopback = false;
  std::optional<asio::ssl::context> tls;
  std::shared_ptr<Door> door = std::make_shared<Door>();
  std::unique_ptr<Loop> loop = std::make_unique<Loop>();
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() { state_->leave_address(); }

const std::string& Server::address() const { return state_->address; }
bool Server::is_loopback() const { return state_->is_loopback; }
std::int64_t Server::num_connections() const { return state_->num_connections; }

Result<std::unique_ptr<Server>> Server::bind(const Endpoint& endpoint, const Limits& limits) {
  auto state = std::make_unique<State>(limits);
  // One that comes before `run` does is kept for it.
  for (const int number : {SIGTERM, SIGINT}) state->loop->signals.add(number);
  if (!endpoint.tls_cert.empty()) {
    Error error;
    bool is_encrypted = false;
    state->tls.emplace(asio::ssl::context::tls_server);
    state->tls->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1 |
                            asio::ssl::context::no_compression);
    state->tls->use_certificate_chain_file(endpoint.tls_cert, error);
    if (error) {
      return fail(ErrorCode::kFileUnreadable, "{} is no certificate chain in PEM: {}", endpoint.tls_cert,
                  error.message());
    }
    state->tls->set_password_callback(
        [&is_encrypted](std::size_t, asio::ssl::context::password_purpose) {
          is_encrypted = true;
          return std::string();
        },
        error);
    state->tls->use_private_key_file(endpoint.tls_key, asio::ssl::context::pem, error);
    if (is_encrypted) {
      return fail(ErrorCode::kFileUnreadable,
                  "{} is encrypted with a pass phrase, which is not asked for: give the key without one, as `openssl "
                  "pkey -in KEY -out PLAIN_KEY` writes it",
                  endpoint.tls_key);
    }
    if (error) {
      return fail(ErrorCode::kFileUnreadable, "{} is not the certificate's key in PEM: {}", endpoint.tls_key,
                  error.message());
    }
  }
  Acceptor& acceptor = state->loop->acceptor;
  const auto where = PAGODA_TRY(find_address(state->loop->io, endpoint));
  const bool local = !endpoint.unix_socket.empty();
  const std::string name = local ? endpoint.unix_socket : format("{}:{}", endpoint.host, endpoint.port);
  Error error;
  acceptor.open(where.protocol(), error);
  if (!error && !local) acceptor.set_option(Acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(where, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (error) {
    const bool taken = error == asio::error::address_in_use;
    return fail(ErrorCode::kIoFailed, "cannot listen on {}: {}{}", name, error.message(),
                !taken  ? ""
                : local ? "; a server answers there, or it is no socket: --unix-socket takes another path"
                        : "; --port takes another port, or 0 for any free one");
  }
  if (local) {
    state->unix_path = endpoint.unix_socket;
    state->unix_socket = socket_at(endpoint.unix_socket);
    state->address = "unix:" + endpoint.unix_socket;
  } else if (const auto bound = tcp_of(acceptor.local_endpoint(error))) {
    state->address = format("{}://{}", state->tls ? "https" : "http", name_of(*bound));
    state->is_loopback = is_loopback_address(bound->address());
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

void Server::run(Routes& routes, std::chrono::milliseconds patience, Hooks hooks) {
  State& state = *state_;
  state.shared.routes = &routes;
  state.patience = patience;
  state.hooks = std::move(hooks);
  auto wakes = std::make_shared<std::weak_ptr<WakeList>>();
  state.shared.wakes = std::make_shared<WakeList>([door = state.door, wakes] {
    try {
      door->post([wakes] {
        if (const auto list = wakes->lock()) list->drain();
      });
    } catch (const std::bad_alloc&) {  // of no concern to the engine's thread: the next second looks at the list
    }
  });
  *wakes = state.shared.wakes;
  state.on_signal();
  state.every_second();
  asio::co_spawn(
      state.loop->io, [&state] { return state.accept(); }, asio::detached);
  state.loop->io.run();
  state.door->close();
  state.loop.reset();
}

void Server::drain(std::chrono::milliseconds patience) {
  post([state = state_.get(), patience] { state->begin_drain(patience); });
}

void Server::post(std::function<void()> task) { state_->door->post(std::move(task)); }

void Server::State::on_signal() {
  loop->signals.async_wait([this](const Error& error, int) {
    if (error) return;
    if (shared.draining) {  // the second one
      hooks.on_second_signal();
      loop->io.stop();
      return;
    }
    begin_drain(patience);
    on_signal();
  });
}

void Server::State::every_second() {
  loop->tick.expires_after(std::chrono::seconds(1));
  loop->tick.async_wait([this](const Error& error) {
    if (error) return;
    hooks.every_second();
    shared.wakes->drain();
    if (shared.draining && num_connections == 0) return loop->io.stop();
    every_second();
  });
}

void Server::State::notify_all() {
  for (Connection* const connection : connections) connection->notify();
}

/// Nobody comes any more, and the next server may take the address at once.
void Server::State::leave_address() {
  Error ignored;
  if (loop) loop->acceptor.close(ignored);
  if (unix_socket && socket_at(unix_path) == unix_socket) ::unlink(unix_path.c_str());
  unix_socket.reset();
}

void Server::State::begin_drain(std::chrono::milliseconds with_patience) {
  constexpr auto kAfterwards = std::chrono::seconds(1);  // for the last words of answers that are cut short
  constexpr auto kOnItsWay = std::chrono::seconds(1);    // for the rest of a request whose beginning has come
  const bool first = !shared.draining;
  shared.draining = true;
  if (first) shared.reads_until = Clock::now() + kOnItsWay;
  shared.cut_off = std::min(shared.cut_off, Clock::now() + with_patience);
  leave_address();
  if (first) hooks.on_drain();
  notify_all();
  loop->cut.expires_at(shared.cut_off);
  loop->cut.async_wait([this, kAfterwards](const Error& error) {
    if (error) return;
    notify_all();
    loop->cut.expires_after(kAfterwards);
    loop->cut.async_wait([this](const Error& cancelled) {
      if (!cancelled) loop->io.stop();
    });
  });
  if (num_connections == 0) loop->io.stop();
}

std::string Server::State::peer_of(const Socket& socket) const {
  Error error;
  const auto endpoint = tcp_of(socket.remote_endpoint(error));
  return endpoint && !error ? name_of(*endpoint) : "unix";
}

Task<void> Server::State::accept() {
  for (;;) {
    Error error;
    Socket socket = co_await loop->acceptor.async_accept(loop->io, asio::redirect_error(asio::use_awaitable, error));
    if (shared.draining) co_return;
    if (error) {  // too many open files, most likely: others will close theirs
      asio::steady_timer pause(loop->io, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    std::string peer = peer_of(socket);
    if (peer != "unix") socket.set_option(Tcp::no_delay(true), error);
    const bool too_many = num_connections >= static_cast<std::int64_t>(shared.limits.num_connections);
    ++(too_many ? num_turned_away : num_connections);
    asio::co_spawn(
        loop->io,
        [this, too_many, socket = std::move(socket), peer = std::move(peer)]() mutable {
          return too_many ? turn_away(std::move(socket)) : serve(std::move(socket), std::move(peer));
        },
        asio::detached);
  }
}

/// One that is too many is told so. Like any other it may be sending, and then reads what was sent to it only if its
/// socket stays open a while; but of very many that is not kept up.
Task<void> Server::State::turn_away(Socket socket) {
  constexpr std::int64_t kMostLingering = 256;
  constexpr auto kPatience = std::chrono::seconds(1);
  try {
    const std::string body = shared.routes->error(503, "overloaded", "the server has too many connections").body;
    const std::string text = format(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: "
        "1\r\nconnection: close\r\n\r\n{}",
        body.size(), body);
    const auto transport = plain_transport(std::move(socket));
    const Deadline deadline(*transport, loop->io.get_executor(), kPatience);
    if (!tls) co_await transport->write(text, kPatience);
    co_await transport->finish();
    std::string ignored;
    while (num_turned_away <= kMostLingering && co_await transport->read(ignored)) ignored.clear();
  } catch (const std::exception&) {  // memory ran out: it is closed without a word
  }
  --num_turned_away;
}

Task<void> Server::State::serve(Socket socket, std::string peer) {
  {
    std::unique_ptr<Transport> transport =
        tls ? tls_transport(std::move(socket), *tls) : plain_transport(std::move(socket));
    const auto connection =
        std::make_shared<Connection>(std::move(transport), loop->io.get_executor(), std::move(peer), shared);
    connections.insert(connection.get());
    try {
      co_await connection->run();
    } catch (const std::exception&) {  // memory ran out: this connection's end, and nobody else's
      connection->close();
    }
    connections.erase(connection.get());
  }
  --num_connections;
  if (shared.draining && num_connections == 0) loop->io.stop();
}

}  // namespace pagoda::server::http
