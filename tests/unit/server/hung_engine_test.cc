// An engine that takes no step any more, hung or dead: seen by /health, told to who waits, and the end of `run`.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "api/model_state.h"
#include "server/server.h"
#include "server/service.h"
#include "unit/api/tiny_chat_model.h"
#include "unit/engine/engine_fixture.h"

namespace pagoda::server {
namespace {

using engine::eventually;

/// What a server at `address` ("http://127.0.0.1:PORT") answers until it closes; nothing if it is gone.
std::string answer(const std::string& address, const std::string& request) {
  sockaddr_in place{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  place.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  std::string out;
  if (connect(client, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
      write(client, request.data(), request.size()) != std::ssize(request)) {
    close(client);
    return out;
  }
  char buffer[4096];
  for (ssize_t size = 0; (size = read(client, buffer, sizeof buffer)) > 0;) {
    out.append(buffer, static_cast<std::size_t>(size));
  }
  close(client);
  return out;
}

std::string get(const std::string& address, const std::string& path) {
  return answer(address, "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

std::string ask_stream(const std::string& address, const std::string& model) {
  const std::string body =
      R"({"model":")" + model + R"(","prompt":"abc","max_tokens":30,"ignore_eos":true,"stream":true})";
  return answer(address,
                "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                "Content-Length: " +
                    std::to_string(body.size()) + "\r\n\r\n" + body);
}

/// The tiny model's texts over a scripted runner's steps.
Model scripted_model(const engine::Script& script) {
  Model model = api::open_tiny();
  model.state()->engine = engine::make_engine(script);
  return model;
}

/// A server of `model` that answers, and runs until it ends by itself.
struct Started {
  Started(const Model& model, ServerOptions options) {
    options.endpoint.port = 0;
    options.alias = "scripted";
    auto bound = Server::bind(std::move(options));
    EXPECT_TRUE(bound.ok()) << bound.error().message;
    server = std::move(bound).value();
    ended = std::async(std::launch::async, [this, &model] {
      return server->run([&](const ProgressSink&) { return model; },
                         {.on_ready = [this](const Model&) { ready.set_value(); }, .abandon = [] { FAIL(); }});
    });
    ready.get_future().wait();
  }
  const std::string& address() const { return server->address(); }

  std::unique_ptr<Server> server;
  std::promise<void> ready;
  std::future<Status> ended;
};

TEST(HungEngine, EndsTheServerAfterItsTime) {
  std::atomic<bool> hangs{true};
  engine::Script script;
  script.vocab = std::ssize(api::tiny_tokens());
  script.lowest_id = 4;
  script.before_step = [&hangs](std::int64_t step) -> Status {
    while (step >= 7 && hangs) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Ok{};
  };
  const Model model = scripted_model(script);
  ServerOptions options;
  options.stuck_time = std::chrono::seconds(1);
  options.give_up_time = std::chrono::seconds(4);
  Started started(model, options);
  const std::string address = started.address();
  EXPECT_TRUE(get(address, "/health").starts_with("HTTP/1.1 200 ")) << "nothing to do is no lack of progress";
  auto told = std::async(std::launch::async, [&] { return ask_stream(address, "scripted"); });
  EXPECT_TRUE(eventually([&] {
    const std::string health = get(address, "/health");
    return health.starts_with("HTTP/1.1 503 ") && health.find("no progress") != std::string::npos;
  }));

  const Status status = started.ended.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
  EXPECT_NE(status.error().message.find("took no step for"), std::string::npos) << status.error().message;
  const std::string stream = told.get();
  EXPECT_NE(stream.find(R"("text":)"), std::string::npos) << "steps before the one that hangs are answered";
  EXPECT_NE(stream.find(R"({"error":)"), std::string::npos) << stream;
  hangs = false;
}

TEST(HungEngine, HasItsTimeAfterAProcessThatStoodStill) {
  std::atomic<bool> hangs{true};
  engine::Script script;
  script.vocab = std::ssize(api::tiny_tokens());
  script.before_step = [&hangs](std::int64_t) -> Status {
    while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Ok{};
  };
  const Model model = scripted_model(script);
  ServerOptions options;
  options.stuck_time = std::chrono::seconds(1);
  options.give_up_time = std::chrono::seconds(2);
  Service service(options, true);
  service.serve(model);
  EXPECT_FALSE(service.every_second(0));
  const auto running = model.generate(api::ask_text("abc", 3));
  ASSERT_TRUE(running.ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(3200));  // nobody looks
  EXPECT_FALSE(service.every_second(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_TRUE(service.every_second(0));
  hangs = false;
}

// CASES J2, and its sibling: whoever waited has left before the engine died.
TEST(DeadEngine, EndsTheServerWhoeverHearsOfIt) {
  for (const bool stays : {true, false}) {
    std::atomic<bool> waits{false}, go{false};
    engine::Script script;
    script.vocab = std::ssize(api::tiny_tokens());
    script.lowest_id = 4;
    script.before_step = [&](std::int64_t step) -> Status {
      if (step < 3) return Ok{};
      waits = true;
      go.wait(false);
      throw std::runtime_error("no more steps");
    };
    const Model model = scripted_model(script);
    Started started(model, {});
    const std::string address = started.address();
    Request request;
    request.prompt = RawText{.text = "abc"};
    request.sampling.max_tokens = 30;
    request.sampling.ignore_eos = true;
    std::optional<Generation> none;
    std::future<std::string> told;
    if (stays) {
      told = std::async(std::launch::async, [&] { return ask_stream(address, "scripted"); });
    } else {
      none.emplace(model.generate(request).value());
    }
    EXPECT_TRUE(eventually([&] { return waits.load(); }));
    none.reset();
    go = true;
    go.notify_all();
    const Status status = started.ended.get();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("no more steps"), std::string::npos) << status.error().message;
    if (stays) {
      EXPECT_NE(told.get().find(R"({"error":)"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace pagoda::server
