#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

extern "C" int fuzz_stop_matcher(const std::uint8_t* data, std::size_t size);

TEST(StopMatcherCorpus, Replays) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fuzz/corpus/stop_matcher")) {
    std::ifstream in(file.path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    const std::string bytes = text.str();
    EXPECT_EQ(fuzz_stop_matcher(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0) << file.path();
    ++count;
  }
  EXPECT_GT(count, 1);
}
