#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pagoda::text {
namespace {

// CASES C1: no part of a stop string is shown before it is known to be none.
TEST(StopMatcher, C1_HoldsBackWhatMayBegin) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("ABC"), "ABC");
  EXPECT_EQ(matcher.push("DEF"), "");
  EXPECT_EQ(matcher.push("G"), "");
  EXPECT_EQ(matcher.push("HI"), "");
  EXPECT_EQ(matcher.push("JK"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "DEFGHIJ");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, C1_GivesOutWhatProvedToBeNone) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("ABCDEFGH"), "ABC");
  EXPECT_EQ(matcher.push("x"), "DEFGHx");
  EXPECT_EQ(matcher.push("DE"), "");
  EXPECT_EQ(matcher.finish(), "DE");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, TheMatchThatBeginsFirstWins) {
  StopMatcher matcher({"EF", "DEFGHIJ"});
  EXPECT_EQ(matcher.push("ABCDEFGH"), "ABC");
  EXPECT_EQ(matcher.push("IJK"), "");
  EXPECT_EQ(matcher.matched(), "DEFGHIJ");

  StopMatcher other({"EF", "DEFGHIJ"});
  EXPECT_EQ(other.push("ABCDEFGH"), "ABC");
  EXPECT_EQ(other.push("x"), "D");
  EXPECT_EQ(other.matched(), "EF");

  StopMatcher ended({"EF", "DEFGHIJ"});
  EXPECT_EQ(ended.push("ABCDEFGH"), "ABC");
  EXPECT_EQ(ended.finish(), "D");
  EXPECT_TRUE(ended.stopped());
}

TEST(StopMatcher, EmptyStringsNeverMatch) {
  StopMatcher matcher({"", "x"});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(StopMatcher(std::vector<std::string>()).push("abc"), "abc");
}

TEST(StopMatcher, SharedStopStringsAndTextsOfTheirOwn) {
  const auto stops = std::make_shared<const StopStrings>(std::vector<std::string>{"abc", "bd"});
  StopMatcher one(stops), other(stops);
  EXPECT_EQ(one.push("xab"), "x");
  EXPECT_EQ(other.push("yab"), "y");
  EXPECT_EQ(one.push("c"), "");
  EXPECT_EQ(other.push("d"), "a");
  EXPECT_EQ(one.matched(), "abc");
  EXPECT_EQ(other.matched(), "bd");
}

TEST(StopMatcher, EqualsASearchOfTheWholeText) {
  std::mt19937 random(5);
  const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(random); };
  const auto word = [&](int most) {
    std::string out;
    for (int left = up_to(most); left > 0; --left) out += static_cast<char>('a' + up_to(1));
    return out;
  };
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> stops;
    for (int left = up_to(3); left >= 0; --left) stops.push_back(word(5));
    const std::string text = word(17);
    std::size_t first = std::string::npos;
    for (const std::string& stop : stops) {
      if (!stop.empty()) first = std::min(first, text.find(stop));
    }
    StopMatcher matcher(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const auto count = static_cast<std::size_t>(up_to(3));
      shown += matcher.push(text.substr(at, count));
      at += count;
    }
    shown += matcher.finish();
    ASSERT_EQ(shown, text.substr(0, first)) << text;
    ASSERT_EQ(matcher.stopped(), first != std::string::npos) << text;
  }
}

TEST(StopMatcher, TimeIsLinearOnTextThatAlmostMatches) {
  StopMatcher matcher({std::string(1000, 'a') + "b", "aab"});
  std::string shown;
  for (int i = 0; i < 1000; ++i) shown += matcher.push(std::string(999, 'a'));
  EXPECT_GT(shown.size(), 990'000u);
  EXPECT_FALSE(matcher.stopped());
}

}  // namespace
}  // namespace pagoda::text
