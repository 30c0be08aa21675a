#include "kv/prefix_key.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace pagoda::kv {
namespace {

constexpr std::array<std::int32_t, 3> kTokens = {5, 0, -1};

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// The same bytes through Python's hashlib: salt = H(1 “test salt”), root = H(1 salt, 2 “model”, 3 “user”),
// block = H(4 root, 5 tokens as little-endian int32), each field a tag byte, a little-endian u64 length and its bytes.
TEST(PrefixKeyTest, KeysAreSha256OverTaggedFields) {
  KeyChain keys("test salt");
  const Digest root = keys.root("model", "user");
  EXPECT_EQ(hex(root), "08f58470133642e2ccdc620f315d3f25f9a32546d3d3da60c9e533e686bf10ab");
  EXPECT_EQ(hex(keys.block(root, kTokens)), "eacaef5fb8e6e2e0c27089e7528c8040e38bcf92028d1496c06b339b7a414c33");
}

TEST(PrefixKeyTest, EveryFieldCounts) {
  KeyChain keys("s");
  std::set<Digest> seen;
  const auto fresh = [&](const Digest& digest) { return seen.insert(digest).second; };
  EXPECT_TRUE(fresh(keys.root("m", "")));
  EXPECT_TRUE(fresh(keys.root("", "m")));  // a model's name is no salt
  EXPECT_TRUE(fresh(keys.root("ab", "c")));
  EXPECT_TRUE(fresh(keys.root("a", "bc")));
  const Digest root = keys.root("m", "");
  EXPECT_TRUE(fresh(keys.block(root, kTokens)));
  EXPECT_TRUE(fresh(keys.block(keys.root("m", "other"), kTokens)));
  EXPECT_TRUE(fresh(keys.block(root, std::array{5, 0, 1})));
  EXPECT_TRUE(fresh(keys.block(root, std::array{5, 0})));
  EXPECT_TRUE(fresh(keys.block(root, std::array{5, 0, -1, 0})));
  EXPECT_TRUE(fresh(KeyChain("t").root("m", "")));
}

TEST(PrefixKeyTest, WithoutASaltKeysCannotBeGuessed) {
  EXPECT_NE(KeyChain("").root("m", ""), KeyChain("").root("m", ""));
  EXPECT_EQ(KeyChain("x").root("m", ""), KeyChain("x").root("m", ""));
}

// CASES E2: the same ids with another image, or the same image elsewhere, are another block.
TEST(PrefixKeyTest, E2_TwoThousandImagesHaveTwoThousandKeys) {
  KeyChain keys("s");
  const Digest root = keys.root("m", "");
  std::set<Digest> seen = {keys.block(root, kTokens)};
  for (std::uint32_t image = 0; image < 2000; ++image) {
    ContentDigest content{.position = 1};
    content.digest[31] = static_cast<std::uint8_t>(image);
    content.digest[17] = static_cast<std::uint8_t>(image >> 8);
    EXPECT_TRUE(seen.insert(keys.block(root, kTokens, std::array{content})).second) << image;
    content.position = 2;
    EXPECT_TRUE(seen.insert(keys.block(root, kTokens, std::array{content})).second) << image;
  }
}

}  // namespace
}  // namespace pagoda::kv
