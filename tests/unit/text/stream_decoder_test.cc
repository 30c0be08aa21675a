#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include "unit/text/random_text.h"
#include "unit/text/small_vocabularies.h"

namespace pagoda::text {
namespace {

/// Ids of bytes are the bytes in this vocabulary.
Ids bytes(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string stream(const Tokenizer& tokenizer, const Ids& ids, bool skip_special = true,
                   TextStart start = TextStart::kBeginning) {
  StreamDecoder decoder(tokenizer, skip_special, start);
  std::string out;
  for (const auto id : ids) {
    const std::string part = decoder.push(id);
    EXPECT_EQ(valid_utf8_length(part), part.size()) << "a part of a character was given out";
    out += part;
  }
  return out + decoder.finish();
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsWhole) {
  const auto tokenizer = create(byte_level_source(english_merges()));
  StreamDecoder decoder(*tokenizer, true);
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\U0001F600");
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.finish(), "");
}

// CASES A1: a prompt that ends inside a character leaves no trace in the answer.
TEST(StreamDecoder, A1_OnlyWhatWasGenerated) {
  const auto tokenizer = create(byte_level_source(english_merges()));
  // The prompt "Hello " and two bytes of U+1F336 has been fed; the model completes the character and goes on.
  EXPECT_EQ(stream(*tokenizer, bytes("\x8C\xB6 hot")), "\uFFFD\uFFFD hot");
}

TEST(StreamDecoder, EachBadPartBecomesOneReplacement) {
  // As Python's bytes.decode("utf-8", "replace").
  EXPECT_EQ(repair_utf8("\xFF"), "\uFFFD");
  EXPECT_EQ(repair_utf8("a\xE2\x82z"), "a\uFFFDz");
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xC0\xAF\xF5"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xE2\xE2\x82\xAC"), "\uFFFD\u20AC");
  EXPECT_EQ(repair_utf8("\xF4\x90\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("caf\u00E9"), "caf\u00E9");
}

TEST(StreamDecoder, PartsJoinToTheWhole) {
  const auto byte_level = create(byte_level_source(english_merges()));
  const auto sentence_piece = create(sentence_piece_source({"▁", "a", "▁a", "e"}));
  std::mt19937 random(29);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random, 23);
    Ids noise;  // any ids at all
    const std::string garbage = random_text(random, 23);
    for (const char c : garbage) noise.push_back((static_cast<unsigned char>(c) * 7 + i) % 263);
    for (const auto* tokenizer : {byte_level.get(), sentence_piece.get()}) {
      for (const bool skip : {false, true}) {
        for (const TextStart start : {TextStart::kBeginning, TextStart::kContinuation}) {
          for (const Ids& ids : {tokenizer->encode(text).value(), noise}) {
            ASSERT_EQ(stream(*tokenizer, ids, skip, start), repair_utf8(tokenizer->decode(ids, skip, start)));
          }
        }
      }
    }
  }
}

TEST(StreamDecoder, SkipsMarksOrShowsThem) {
  const auto tokenizer = create(byte_level_source(english_merges()));
  const Ids ids = {'a', *tokenizer->find("<|im_end|>"), 'b'};
  EXPECT_EQ(stream(*tokenizer, ids, true), "ab");
  EXPECT_EQ(stream(*tokenizer, ids, false), "a<|im_end|>b");
}

TEST(StreamDecoder, DropsTheSpaceThatEncodeAdds) {
  const auto tokenizer = create(sentence_piece_source({"▁", "a", "▁a"}));
  const Ids ids = {*tokenizer->bos(), *tokenizer->find("▁a"), *tokenizer->find("▁a")};
  EXPECT_EQ(stream(*tokenizer, ids, true), "a a");
  EXPECT_EQ(stream(*tokenizer, ids, true, TextStart::kContinuation), " a a");
}

}  // namespace
}  // namespace pagoda::text
