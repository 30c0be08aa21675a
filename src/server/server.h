// `pagoda serve`: one model behind HTTP.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/model.h"
#include "pagoda/progress.h"
#include "server/http/limits.h"
#include "server/http/server.h"

namespace pagoda::server {

struct ServerOptions {
  http::Endpoint endpoint{};
  http::Limits limits{};
  std::vector<std::string> api_keys{};      ///< none: everybody may ask
  std::vector<std::string> cors_origins{};  ///< "*" is any; none: CORS is off
  std::string alias{};                      ///< the model's name for clients; empty: its own
  bool page = true;
  int workers = 2;  ///< threads that read requests and tokenize; of two or more one is for small requests alone
  std::chrono::milliseconds drain_time{30'000};
  /// The engine has work and takes no step: after the first time it is not healthy, after the second the server ends.
  std::chrono::seconds stuck_time{30};
  std::chrono::seconds give_up_time{60};
  /// Gets one JSON object a request, without a line break, on the connections' thread; no prompts, no answers. Empty:
  /// no log.
  std::function<void(std::string_view line)> request_log{};
  /// How many of its lines nobody took, for /metrics. Any thread.
  std::function<std::int64_t()> num_lost_log_lines = [] { return std::int64_t{0}; };
};

class Server {
 public:
  /// Takes the address. Errors: kIoFailed, kFileUnreadable for certificate and key.
  static Result<std::unique_ptr<Server>> bind(ServerOptions options);
  ~Server();

  /// "http://127.0.0.1:8080"
  const std::string& address() const;

  /// Whether others than this machine's users may come to it.
  bool is_open_to_others() const;

  /// Opens the model that is served, and says how far it is.
  using Opener = std::function<Result<Model>(const ProgressSink&)>;
  struct Hooks {
    std::function<void(const Model&)> on_ready;  ///< the model is there, and every route is served
    /// A signal while the model is being opened, or a second one, when a thread may still read a large request: nothing
    /// can interrupt these. Has to end the process. The address is free.
    std::function<void()> abandon;
    std::function<void()> on_closed = [] {};  ///< no connection is left, and signals are the caller's again
  };

  /// Answers from now on: 503 with the progress while `open` runs, which it does on the calling thread, then every
  /// route, until SIGTERM or SIGINT and the end of what runs then. The model is closed with this object. Errors:
  /// open's; kDeviceLost, kInternal when the engine takes no steps any more.
  Status run(const Opener& open, const Hooks& hooks);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pagoda::server
