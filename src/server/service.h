// The routes: what each path does, and who may ask.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
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
  Service(const Model& model, const ServerOptions& options);
  ~Service() override;

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
  enum class Health : std::uint8_t { kGood, kStuck, kLost };

  const Entry* find(std::string_view path) const;
  std::optional<http::Response> preflight(const http::Request& request) const;
  bool allows_origin(std::string_view origin) const;
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
  const ServedModel served_;
  const Keys keys_;
  const Page page_;
  const std::int64_t created_;
  const std::string openapi_;
  const RequestReader chat_, completions_, tokenize_, detokenize_;
  const std::string instance_;  ///< in ids of answers, so that those of two runs differ
  Metrics metrics_;
  std::uint64_t num_answers_ = 0;
  std::int64_t connections_ = 0;
  bool draining_ = false;
  Health health_ = Health::kGood;
  std::optional<Error> lost_;

  Workers workers_;  // last: its threads use what stands above
};

}  // namespace pagoda::server
