#include "server/metrics.h"

#include <gmock/gmock.h>

namespace pagoda::server {
namespace {

using testing::HasSubstr;

TEST(Metrics, LabelsAreEscaped) {
  Metrics metrics;
  const std::string text = metrics.write("a\"b\\c\nd", Stats{}, {});
  EXPECT_THAT(text, HasSubstr("pagoda_num_requests_running{model_name=\"a\\\"b\\\\c\\nd\"} 0\n"));
}

TEST(Metrics, HistogramsCountUpToEachBound) {
  static constexpr double kBounds[] = {0.5, 2};
  Stats stats;
  stats.step_s = {.bounds = kBounds, .counts = {3, 0, 4}, .sum = 20.5};
  const std::string text = Metrics().write("m", stats, {});
  EXPECT_THAT(text, HasSubstr("pagoda_step_duration_seconds_bucket{model_name=\"m\",le=\"0.5\"} 3\n"
                              "pagoda_step_duration_seconds_bucket{model_name=\"m\",le=\"2\"} 3\n"
                              "pagoda_step_duration_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 7\n"
                              "pagoda_step_duration_seconds_sum{model_name=\"m\"} 20.5\n"
                              "pagoda_step_duration_seconds_count{model_name=\"m\"} 7\n"));
}

TEST(Metrics, PromptsFallBelowTheirBound) {
  Metrics metrics;
  metrics.prompt(16);
  metrics.prompt(17);
  const std::string text = metrics.write("m", Stats{}, {});
  EXPECT_THAT(text, HasSubstr("pagoda_request_prompt_tokens_bucket{model_name=\"m\",le=\"16\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("pagoda_request_prompt_tokens_bucket{model_name=\"m\",le=\"64\"} 2\n"));
}

}  // namespace
}  // namespace pagoda::server
