#include "server/http/transport.h"

#include <poll.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>

namespace pagoda::server::http {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr std::size_t kSlice = 64 << 10;

auto into(Error& error) { return asio::redirect_error(asio::use_awaitable, error); }

/// As Transport::ended.
bool ended_at(int descriptor) {
  pollfd socket{.fd = descriptor, .events = POLLRDHUP, .revents = 0};
  return poll(&socket, 1, 0) != 0;
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)) {
    Error ignored;
    socket_.non_blocking(true, ignored);
  }

  Task<bool> handshake() override { co_return true; }

  /// No buffer of its own waits for bytes: one thread reads for all connections.
  Task<bool> read(std::string& bytes) override {
    static thread_local std::array<char, kSlice> buffer;
    for (;;) {
      Error error;
      const std::size_t size = socket_.read_some(asio::buffer(buffer), error);
      if (!error) {
        bytes.append(buffer.data(), size);
        co_return true;
      }
      if (error != asio::error::would_block && error != asio::error::try_again) co_return false;
      error.clear();
      co_await socket_.async_wait(Socket::wait_read, into(error));
      if (error) co_return false;
    }
  }

  bool ended() override { return ended_at(socket_.native_handle()); }

  Task<bool> write(std::string_view bytes, std::chrono::milliseconds patience) override {
    while (!bytes.empty()) {
      Error error;
      const std::size_t size = socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
      bytes.remove_prefix(size);
      if (!error) continue;
      if (error != asio::error::would_block && error != asio::error::try_again) co_return false;
      const std::string_view slice = bytes.substr(0, kSlice);
      const Deadline deadline(*this, socket_.get_executor(), patience);
      error.clear();
      co_await asio::async_write(socket_, asio::buffer(slice.data(), slice.size()), into(error));
      if (error) co_return false;
      bytes.remove_prefix(slice.size());
    }
    co_return true;
  }

  Task<void> finish() override {
    Error ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    co_return;
  }

  void close() override {
    Error ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

/// The bytes of TLS's close_notify, after which the session sends nothing. Asio's own buffer would keep them until a
/// write that can no longer come.
std::string close_alert(SSL* session) {
  BIO* const into = BIO_new(BIO_s_mem());
  if (into == nullptr) return {};
  BIO* const usual = SSL_get_wbio(session);
  BIO_up_ref(usual);
  SSL_set0_wbio(session, into);
  SSL_shutdown(session);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(into, &bytes);
  std::string alert(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
  SSL_set0_wbio(session, usual);  // and `into` is freed
  ERR_clear_error();
  return alert;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(Socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}

  Task<bool> handshake() override {
    Error error;
    co_await stream_.next_layer().async_wait(Socket::wait_read, into(error));
    if (error) co_return false;
    char first = 0;  // of TLS a control character, of HTTP a method's letter
    stream_.next_layer().receive(asio::buffer(&first, 1), Socket::message_peek, error);
    if (!error && first >= 'A' && first <= 'Z') {
      plain_ = std::make_unique<PlainTransport>(std::move(stream_.next_layer()));
      co_return true;
    }
    error.clear();
    co_await stream_.async_handshake(asio::ssl::stream_base::server, into(error));
    co_return !error;
  }

  bool wants_no_tls() const override { return plain_ != nullptr; }

  Task<bool> read(std::string& bytes) override {
    if (plain_) co_return co_await plain_->read(bytes);
    std::array<char, 4096> buffer;
    Error error;
    const std::size_t size = co_await stream_.async_read_some(asio::buffer(buffer), into(error));
    bytes.append(buffer.data(), size);
    co_return !error;
  }

  bool ended() override { return plain_ ? plain_->ended() : ended_at(stream_.lowest_layer().native_handle()); }

  Task<bool> write(std::string_view bytes, std::chrono::milliseconds patience) override {
    if (plain_) co_return co_await plain_->write(bytes, patience);
    while (!bytes.empty()) {
      const std::string_view slice = bytes.substr(0, kSlice);
      const Deadline deadline(*this, stream_.get_executor(), patience);
      Error error;
      co_await asio::async_write(stream_, asio::buffer(slice.data(), slice.size()), into(error));
      if (error) co_return false;
      bytes.remove_prefix(slice.size());
    }
    co_return true;
  }

  /// Says that nothing more is sent, and no more: to wait for the client's word, as async_shutdown does, takes what the
  /// client still sends for a fault.
  Task<void> finish() override {
    if (plain_) co_return co_await plain_->finish();
    const std::string alert = close_alert(stream_.native_handle());
    const Deadline deadline(*this, stream_.get_executor(), std::chrono::seconds(1));
    Error ignored;
    co_await asio::async_write(stream_.next_layer(), asio::buffer(alert), into(ignored));
    stream_.next_layer().shutdown(Socket::shutdown_send, ignored);
  }

  void close() override {
    if (plain_) return plain_->close();
    Error ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  asio::ssl::stream<Socket> stream_;
  std::unique_ptr<PlainTransport> plain_;  ///< what has taken the socket of a client without TLS
};

}  // namespace

Deadline::Deadline(Transport& transport, const asio::any_io_executor& executor, std::chrono::milliseconds patience)
    : timer_(executor, patience), transport_(std::make_shared<Transport*>(&transport)) {
  timer_.async_wait([transport = transport_](const Error& error) {
    if (!error && *transport != nullptr) (*transport)->close();
  });
}

Deadline::~Deadline() { *transport_ = nullptr; }

Task<bool> Signal::wait_until(Clock::time_point time) {
  if (!set_) {
    timer_.expires_at(time);
    Error ignored;
    co_await timer_.async_wait(into(ignored));
  }
  co_return std::exchange(set_, false);
}

void Signal::notify() {
  set_ = true;
  timer_.cancel();
}

std::unique_ptr<Transport> plain_transport(Socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> tls_transport(Socket socket, asio::ssl::context& context) {
  return std::make_unique<TlsTransport>(std::move(socket), context);
}

}  // namespace pagoda::server::http
