// The routes: what each path does, and who may ask.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/auth.h"
#include "server/generate.h"
#include "server/metrics.h"
#include "server/page.h"
#include "server/protocol/reader.h"
#include "server/server.h"
#include "server/workers.h"

namespace pagoda::server {

/// All on the connections' thread but what `Workers` runs.
class Service final : public http::Routes {
 public:
  /// `loopback`: its address is one of this machine alone.
  Service(const ServerOptions& options, bool loopback);
  ~Service() override;

  /// How far the model's opening is. Any thread, until `serve`.
  void loading(const Progress& progress);

  /// The model is there: from now on every route is served. Once.
  void serve(const Model& model);

  std::optional<http::Response> refuse(const http::Request& request) override;
  std::unique_ptr<http::Answer> answer(http::Request request) override;
  http::Response error(int status, std::string_view code, std::string_view sentence) override;
  http::Headers headers_for(const http::Request& request) override;
  void finished(const http::Request& request, const End& end) override;

  /// Nothing new from now on.
  void drain() { draining_ = true; }

  /// Looks whether the engine gets on. Returns why the server has to end, if it has to.
  std::optional<Error> every_second(std::int64_t connections);

  struct Entry;

 private:
  /// What there is once the model is there.
  struct Loaded {
    Loaded(const Model& model, const ServerOptions& options);
    const ServedModel served;
    const std::string openapi;
    const RequestReader chat, completions, tokenize, detokenize;
  };
  /// Of the model's opening.
  struct LoadState {
    ProgressStage stage = ProgressStage::kReadHeader;
    std::uint64_t bytes = 0, total_bytes = 0;  ///< of weights
  };

  const Entry* find(std::string_view path) const;
  LoadState load_state() const;
  std::optional<http::Response> preflight(const http::Request& request) const;
  bool allows_origin(std::string_view origin) const;
  bool comes_from_elsewhere(const http::Request& request) const;
  std::unique_ptr<http::Answer> work(const RequestReader& reader, http::Request request);
  http::Response health() const;
  http::Response ready() const;
  http::Response models() const;
  http::Response model(const http::Request& request) const;
  http::Response metrics() const;

  Outcome generate(ApiRequest request, const std::atomic<bool>& abandoned) const;
  Outcome tokenize(const ApiRequest& request) const;
  Outcome detokenize(const ApiRequest& request) const;

  const ServerOptions& options_;
  const bool loopback_;
  const Keys keys_;
  const Page page_;
  const std::int64_t created_;
  const std::string instance_;  ///< in ids of answers, so that those of two runs differ
  Metrics metrics_;
  std::uint64_t num_answers_ = 0;
  std::int64_t connections_ = 0;
  bool draining_ = false;
  std::chrono::steady_clock::time_point last_look_{}, resumed_{};  ///< of every_second
  bool stuck_ = false;                                             ///< the engine has work and takes no step
  std::unique_ptr<const Loaded> loaded_;                           ///< null while the model is being opened
  mutable std::mutex load_mutex_;
  LoadState load_state_;

  Workers workers_;  // last: its threads use what stands above
};

}  // namespace pagoda::server
