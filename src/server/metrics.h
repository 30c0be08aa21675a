// Counters in the Prometheus text format, with the field's names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "pagoda/stats.h"

namespace pagoda::server {

/// What the server itself sees; the engine's numbers come with `write`. On the connections' thread.
class Metrics {
 public:
  /// What others count.
  struct Now {
    std::int64_t connections = 0;
    std::int64_t lost_log_lines = 0;
  };

  Metrics();

  void prompt(std::int64_t tokens);
  void choice(std::string_view finish, std::int64_t tokens);
  void aborted() { ++aborted_; }
  void refused(std::string_view reason) { ++refused_[std::string(reason)]; }
  void response(std::string_view route, int status) { ++responses_[{std::string(route), status}]; }
  void no_response(std::string_view route) { ++unanswered_[std::string(route)]; }

  std::string write(std::string_view model, const Stats& stats, const Now& now) const;
  /// While there is no model yet, and no name for it.
  std::string write_loading(std::uint64_t bytes, std::uint64_t total_bytes, const Now& now) const;

 private:
  class Writer;
  void write_server(Writer& out, const Now& now) const;

  Histogram prompt_tokens_, answer_tokens_;
  std::map<std::string, std::int64_t> finished_;
  std::map<std::string, std::int64_t> refused_;
  std::map<std::pair<std::string, int>, std::int64_t> responses_;
  std::map<std::string, std::int64_t> unanswered_;
  std::int64_t aborted_ = 0;
};

}  // namespace pagoda::server
