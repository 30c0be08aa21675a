// What fuzzing has found, and what it began with.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

extern "C" int fuzz_http_request(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_api_request(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const char* name, int (*fuzz)(const std::uint8_t*, std::size_t)) {
  int count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(PAGODA_SOURCE_DIR "/tests/fuzz/corpus/") + name)) {
    std::ifstream in(file.path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    const std::string bytes = text.str();
    EXPECT_EQ(fuzz(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0) << file.path();
    ++count;
  }
  EXPECT_GT(count, 2);
}

TEST(ServerCorpus, HttpRequest) { replay("http_request", fuzz_http_request); }
TEST(ServerCorpus, ApiRequest) { replay("api_request", fuzz_api_request); }

}  // namespace
