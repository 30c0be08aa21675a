// The files that fuzzing found interesting, read again in every build; tests/fuzz/tokenizer_json_fuzz.cc does the
// checking.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

extern "C" int fuzz_tokenizer_json(const std::uint8_t* data, std::size_t size);

TEST(TokenizerJsonCorpus, Replays) {
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fuzz/corpus/tokenizer_json")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_EQ(fuzz_tokenizer_json(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++replayed;
  }
  EXPECT_GT(replayed, 20);
}
