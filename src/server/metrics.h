// Counters in the Prometheus text format, with the field's names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pagoda/stats.h"

namespace pagoda::server {

/// Counts of observations up to each bound.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void observe(double value, std::int64_t times = 1);
  void write(std::string_view name, std::string_view help, std::string_view labels, std::string& out) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::int64_t> counts_;
  double sum_ = 0;
};

/// What the server itself sees; the engine's numbers come with `write`. On the connections' thread.
class Metrics {
 public:
  Metrics();

  void first_token(double seconds) { first_token_.observe(seconds); }
  void tokens(double seconds, std::int64_t count) { inter_token_.observe(seconds / static_cast<double>(count), count); }
  void queued(double seconds) { queue_.observe(seconds); }
  void prompt(std::int64_t tokens) { prompt_tokens_.observe(static_cast<double>(tokens)); }
  void choice(std::string_view finish, double seconds, std::int64_t tokens);
  void aborted() { ++aborted_; }
  void refused(std::string_view reason) { ++refused_[std::string(reason)]; }
  void response(std::string_view route, int status) { ++responses_[{std::string(route), status}]; }

  std::string write(std::string_view model, const Stats& stats, std::int64_t connections) const;

 private:
  Histogram first_token_, inter_token_, end_to_end_, queue_, prompt_tokens_, answer_tokens_;
  std::map<std::string, std::int64_t> finished_;
  std::map<std::string, std::int64_t> refused_;
  std::map<std::pair<std::string, int>, std::int64_t> responses_;
  std::int64_t aborted_ = 0;
};

}  // namespace pagoda::server
