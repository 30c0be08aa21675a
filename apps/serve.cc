#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "base/file.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::uint64_t kMostKeyBytes = 1u << 20;

/// Keys of a file, one a line; empty lines and lines that begin with # are none.
Status read_keys(const std::string& path, std::vector<std::string>& keys) {
  const std::string text = PAGODA_TRY(read_text(path, kMostKeyBytes));
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string key = text.substr(begin, end - begin);
    begin = end + 1;
    key.erase(0, std::min(key.find_first_not_of(" \t"), key.size()));
    while (!key.empty() && (key.back() == '\r' || key.back() == ' ' || key.back() == '\t')) key.pop_back();
    if (!key.empty() && key.front() != '#') keys.push_back(std::move(key));
  }
  return Ok{};
}

Result<server::ServerOptions> server_options(const Arguments& arguments) {
  server::ServerOptions options = arguments.server;
  if (!arguments.api_key_file.empty()) {
    const std::size_t before = options.api_keys.size();
    PAGODA_TRY(read_keys(arguments.api_key_file, options.api_keys));
    // A file meant to lock the server must not leave it open.
    if (options.api_keys.size() == before) {
      return fail(ErrorCode::kInvalidArgument, "{} has no key: one a line is wanted", arguments.api_key_file);
    }
  }
  if (const char* const key = std::getenv("PAGODA_API_KEY"); key != nullptr && *key != '\0') {
    options.api_keys.emplace_back(key);
  }
  if (arguments.request_log) {
    options.request_log = [](std::string_view line) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
  }
  return options;
}

bool is_loopback(const server::http::Endpoint& endpoint) {
  return !endpoint.unix_socket.empty() || endpoint.host == "localhost" || endpoint.host == "::1" ||
         endpoint.host.starts_with("127.");
}

/// Closing a model waits for the step that runs. A step that hangs is given a while, and then the process ends.
void limit_closing() {
  constexpr auto kPatience = std::chrono::seconds(10);
  std::thread([kPatience] {
    std::this_thread::sleep_for(kPatience);
    end_at_once({ErrorCode::kInternal, "the model could not be closed: a step of it does not end", {}});
  }).detach();
}

}  // namespace

Status serve(const Arguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads stderr may end before the server
  server::ServerOptions options = PAGODA_TRY(server_options(arguments));
  const bool open = options.api_keys.empty() && !is_loopback(options.endpoint);
  // The address first: that it is taken shows at once, not after a long load.
  const std::unique_ptr<server::Server> server = PAGODA_TRY(server::Server::bind(std::move(options)));
  std::fprintf(stderr, "pagoda: %s answers; the model is being loaded\n", server->address().c_str());
  if (open) std::fprintf(stderr, "pagoda: warning: without --api-key everybody who reaches this address may ask\n");
  const auto on_ready = [&](const Model& model) {
    for (const std::string& line : ledger(model.stats().memory)) std::fprintf(stderr, "pagoda: %s\n", line.c_str());
    std::fprintf(stderr, "pagoda: %s serves %s\n", server->address().c_str(), model.info().name.c_str());
  };
  const Status ended = server->run([&](const ProgressSink& progress) { return open_model(arguments, true, progress); },
                                   {.on_ready = on_ready, .abandon = [] { std::_Exit(0); }});
  if (!ended.ok()) end_at_once(ended.error());  // of an engine that hangs or has no device nothing can be closed
  limit_closing();
  return Ok{};
}

}  // namespace pagoda::apps
