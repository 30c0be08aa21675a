// The files that fuzzing found interesting, read again in every build; tests/fuzz/safetensors_fuzz.cc does the
// checking.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

extern "C" int fuzz_safetensors(const std::uint8_t* data, std::size_t size);

TEST(SafetensorsCorpus, Replays) {
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fuzz/corpus/safetensors")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_EQ(fuzz_safetensors(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++replayed;
  }
  EXPECT_GT(replayed, 20);
}
