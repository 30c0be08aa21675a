#include "server/metrics.h"

#include <gmock/gmock.h>

namespace pagoda::server {
namespace {

using testing::HasSubstr;

TEST(Metrics, LabelsAreEscaped) {
  Metrics metrics;
  const std::string text = metrics.write("a\"b\\c\nd", Stats{}, 0);
  EXPECT_THAT(text, HasSubstr(R"(pagoda_num_requests_running{model_name="a\"b\\c\nd"} 0)"));
}

}  // namespace
}  // namespace pagoda::server
