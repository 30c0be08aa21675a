#include "server/server.h"

#include <atomic>
#include <future>

#include "server/service.h"

namespace pagoda::server {

struct Server::State {
  ServerOptions options;
  std::unique_ptr<http::Server> http;
  std::optional<Model> model;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::bind(ServerOptions options) {
  auto state = std::make_unique<State>();
  state->http = PAGODA_TRY(http::Server::bind(options.endpoint, options.limits));
  state->options = std::move(options);
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

const std::string& Server::address() const { return state_->http->address(); }

bool Server::is_open_to_others() const {
  return !state_->http->is_loopback() && state_->options.endpoint.unix_socket.empty();
}

Status Server::run(const Opener& open, const Hooks& hooks) {
  http::Server& http = *state_->http;
  Service service(state_->options, http.is_loopback());
  std::optional<Error> fatal;
  std::atomic<bool> opened = false;
  bool serves = false;  // of the connections' thread
  // The model lives and dies on the calling thread, as one that is embedded elsewhere does; the connections' is
  // another.
  auto connections = std::async(std::launch::async, [&] {
    http.run(service, state_->options.drain_time,
             {.on_drain =
                  [&] {
                    service.drain();
                    if (!opened) hooks.abandon();  // not after the connections: a slow client could hold it up
                  },
              .on_second_signal =
                  [&] {
                    if (serves && !fatal) hooks.abandon();
                  },
              .every_second =
                  [&] {
                    if (fatal) return;
                    fatal = service.every_second(http.num_connections());
                    if (fatal) http.drain(std::chrono::milliseconds(0));
                  }});
    hooks.on_closed();
    if (!opened) hooks.abandon();
  });
  const auto open_or_stop = [&]() -> Result<Model> {
    try {
      Model model = PAGODA_TRY(open([&service](const Progress& progress) { service.loading(progress); }));
      if (model.info().has_tokenizer) return model;
      return fail(ErrorCode::kTokenizerMissing, "a model that is served needs a tokenizer, and {} has none",
                  model.info().name);
    } catch (...) {
      opened = true;
      http.drain(std::chrono::milliseconds(0));
      throw;
    }
  };
  Result<Model> model = open_or_stop();
  opened = true;
  if (model.ok()) {
    state_->model = std::move(*model);
    http.post([&] {
      serves = true;
      service.serve(*state_->model);
      hooks.on_ready(*state_->model);
    });
  } else {
    http.drain(std::chrono::milliseconds(0));
  }
  connections.get();
  if (!model.ok()) return model.error();
  if (fatal) return *fatal;
  return Ok{};
}

}  // namespace pagoda::server
