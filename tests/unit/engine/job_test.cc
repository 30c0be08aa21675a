#include "engine/job.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace pagoda::engine {
namespace {

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  status >> total >> resident;
  return resident * 4096;
}

// A request of a few hundred bytes may need gigabytes at most: what it does not get to takes no memory.
TEST(Job, TakesMemoryForResultsThatAreThere) {
  Submission submission;
  submission.prompt = {1, 2, 3};
  submission.sampling.logprobs = 20;
  const std::int64_t before = resident_bytes();
  Job job(submission, 3'000'001);
  const std::vector<TokenLogprob> best(20, {.id = 7, .logprob = -0.5f});
  for (std::int32_t i = 0; i < 11; ++i) job.push(i, -0.25f, best);
  EXPECT_LT(resident_bytes() - before, 64 << 20);
  EXPECT_EQ(job.num_ids(), 11);
  EXPECT_EQ(job.id(10), 10);
  EXPECT_EQ(job.scored(10).best.size(), 20);
  EXPECT_EQ(job.scored(10).best[19].id, 7);
}

}  // namespace
}  // namespace pagoda::engine
