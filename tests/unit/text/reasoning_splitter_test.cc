#include "text/reasoning_splitter.h"

#include <gtest/gtest.h>

namespace pagoda::text {
namespace {

struct Split {
  std::string reasoning, answer;
};

Split split(std::string_view text, bool inside, std::size_t step) {
  ReasoningSplitter splitter("<think>", "</think>", inside);
  Split out;
  const auto take = [&out](const std::vector<ReasoningSplitter::Piece>& pieces) {
    for (const auto& piece : pieces) {
      EXPECT_FALSE(piece.text.empty());
      EXPECT_TRUE(!piece.reasoning || out.answer.empty()) << "reasoning comes first";
      (piece.reasoning ? out.reasoning : out.answer) += piece.text;
    }
  };
  for (std::size_t at = 0; at < text.size(); at += step) take(splitter.push(text.substr(at, step)));
  take(splitter.finish());
  return out;
}

struct Case {
  const char* text;
  bool inside;
  const char* reasoning;
  const char* answer;
};

constexpr Case kCases[] = {
    {"<think>\nwhy\n</think>\n\nbecause", false, "why\n", "because"},
    {"\n <think>a</think>b</think>c<think>d", false, "a", "b</think>c<think>d"},
    {"why\n</think>\n\nbecause", true, "why\n", "because"},
    {"<think>never closed </thin", false, "never closed </thin", ""},
    {"no mark <think>at</think> all", false, "", "no mark <think>at</think> all"},
    {"<thin", false, "", "<thin"},
    {"  ", false, "", "  "},
    {"<think></think>x", false, "", "x"},
    {"", true, "", ""},
    {"a</thi</think>b", true, "a</thi", "b"},
};

TEST(ReasoningSplitter, IsTheSameHoweverItsTextComes) {
  for (const Case& c : kCases) {
    for (const std::size_t step : {1, 2, 3, 5, 100}) {
      const Split got = split(c.text, c.inside, step);
      EXPECT_EQ(got.reasoning, c.reasoning) << c.text << " by " << step;
      EXPECT_EQ(got.answer, c.answer) << c.text << " by " << step;
    }
  }
}

TEST(ReasoningSplitter, WithoutMarksEverythingIsAnswer) {
  ReasoningSplitter splitter;
  const auto pieces = splitter.push("<think>a</think>");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_FALSE(pieces.front().reasoning);
  EXPECT_EQ(pieces.front().text, "<think>a</think>");
}

TEST(ReasoningSplitter, GivesOutWhatNoMarkCanBeginIn) {
  ReasoningSplitter splitter("<think>", "</think>", true);
  const auto pieces = splitter.push("ab</th");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces.front().text, "ab");
}

}  // namespace
}  // namespace pagoda::text
