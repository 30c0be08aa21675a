#include "server/server.h"

#include "server/service.h"

namespace pagoda::server {

struct Server::State {
  ServerOptions options;
  std::unique_ptr<http::Server> http;
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

Status Server::run(const Model& model, const std::function<void()>& on_start) {
  http::Server& http = *state_->http;
  Service service(model, state_->options);
  std::optional<Error> fatal;
  http.run(service, state_->options.drain_time,
           {.on_start = on_start,
            .on_drain = [&service] { service.drain(); },
            .every_second =
                [&] {
                  if (fatal) return;
                  fatal = service.every_second(http.num_connections());
                  if (fatal) http.drain(std::chrono::milliseconds(0));
                }});
  if (fatal) return *fatal;
  return Ok{};
}

}  // namespace pagoda::server
