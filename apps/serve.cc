#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "apps/commands.h"
#include "apps/line_log.h"
#include "apps/terminal.h"
#include "base/file.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::uint64_t kMostKeyBytes = 1u << 20;

/// One that no header can carry would lock everybody out who has it.
Status check_key(std::string_view key, std::string_view origin) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (key.starts_with(' ') || key.ends_with(' ') || std::ranges::any_of(key, is_control)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} is no key: it has a space at an end, a line's end or another control character", origin);
  }
  return Ok{};
}

/// Keys of a file, one a line; empty lines and lines that begin with # are none.
Status read_keys(const std::string& path, std::vector<std::string>& keys) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // that some editors write
  std::string text = PAGODA_TRY(read_text(path, kMostKeyBytes));
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  std::size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string key = text.substr(begin, end - begin);
    begin = end + 1;
    key.erase(0, std::min(key.find_first_not_of(" \t"), key.size()));
    while (!key.empty() && (key.back() == '\r' || key.back() == ' ' || key.back() == '\t')) key.pop_back();
    if (key.empty() || key.front() == '#') continue;
    PAGODA_TRY(check_key(key, pagoda::format("{}, line {}", path, line)));
    keys.push_back(std::move(key));
  }
  return Ok{};
}

Result<server::ServerOptions> server_options(const Arguments& arguments, LineLog& log) {
  server::ServerOptions options = arguments.server;
  for (const std::string& key : options.api_keys) PAGODA_TRY(check_key(key, "the text of an --api-key"));
  if (!arguments.api_key_file.empty()) {
    const std::size_t before = options.api_keys.size();
    PAGODA_TRY(read_keys(arguments.api_key_file, options.api_keys));
    // A file meant to lock the server must not leave it open.
    if (options.api_keys.size() == before) {
      return fail(ErrorCode::kInvalidArgument, "{} has no key: one a line is wanted", arguments.api_key_file);
    }
  }
  if (const char* const key = std::getenv("PAGODA_API_KEY"); key != nullptr && *key != '\0') {
    PAGODA_TRY(check_key(key, "the text of PAGODA_API_KEY"));
    options.api_keys.emplace_back(key);
  }
  if (arguments.request_log) options.request_log = [&log](std::string_view line) { log.write(line); };
  options.num_lost_log_lines = [&log] { return log.num_lost(); };
  return options;
}

/// Beyond its limit of open files a server accepts nobody, and so answers nobody: the limit is raised to what all
/// connections need, and where the system forbids that, they are fewer. Returns what to warn of then, or nothing.
std::string fit_open_files(server::http::Limits& limits) {
  constexpr rlim_t kOthers = 512;  // clients that are turned away and still listen, model, devices, timers
  const rlim_t wanted = limits.num_connections + kOthers;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return {};
  files.rlim_cur = std::min(files.rlim_max, wanted);
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur >= wanted) return {};
  const std::size_t asked = limits.num_connections;
  limits.num_connections = std::max<rlim_t>(files.rlim_cur / 2, files.rlim_cur - std::min(files.rlim_cur, kOthers));
  return pagoda::format("{} connections are served at once, not {}: the process may have {} files open (ulimit -Hn)",
                        limits.num_connections, asked, files.rlim_cur);
}

/// Before the server listens to signals itself, and when it does no more, there is nothing to drain.
void end_at_signals() {
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { _exit(0); });
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

Status serve(const Arguments& asked) {
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads stderr may end before the server
  end_at_signals();
  LineLog log;
  const auto say = [&log](std::string_view sentence) { log.write(pagoda::format("pagoda: {}", sentence)); };
  Arguments arguments = asked;
  arguments.library.log = [say](LogLevel level, std::string_view message) {
    if (level != LogLevel::kDebug) say(message);
  };
  server::ServerOptions options = PAGODA_TRY(server_options(arguments, log));
  const std::string fewer = fit_open_files(options.limits);
  if (!fewer.empty()) say("warning: " + fewer);
  const bool locked = !options.api_keys.empty();
  // The address first: that it is taken shows at once, not after a long load.
  const std::unique_ptr<server::Server> server = PAGODA_TRY(server::Server::bind(std::move(options)));
  say(server->address() + " answers; the model is being loaded");
  if (!locked && server->is_open_to_others())
    say("warning: without --api-key everybody who reaches this address may ask");
  const auto on_ready = [&](const Model& model) {
    for (const std::string& line : ledger(model.stats().memory)) say(line);
    say(server->address() + " serves " + model.info().name);
  };
  const auto abandon = [&log] {
    log.finish();
    std::_Exit(0);
  };
  const Status ended = server->run([&](const ProgressSink& progress) { return open_model(arguments, true, progress); },
                                   {.on_ready = on_ready, .abandon = abandon, .on_closed = end_at_signals});
  if (!ended.ok()) {
    log.finish();
    end_at_once(ended.error());  // of an engine that hangs or has no device nothing can be closed
  }
  limit_closing();
  return Ok{};
}

}  // namespace pagoda::apps
