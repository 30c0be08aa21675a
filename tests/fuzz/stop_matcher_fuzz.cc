// Stop strings: however a text comes in parts, it ends before the match that begins first.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/reasoning_splitter.h"
#include "text/stop_matcher.h"

namespace {

std::string shown(const std::vector<std::string>& stops, std::string_view text, std::size_t step) {
  pagoda::text::StopMatcher matcher(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += step) out += matcher.push(text.substr(at, step));
  return out + matcher.finish();
}

std::string split(std::string_view text, std::size_t step) {
  pagoda::text::ReasoningSplitter splitter("<a>", "</a>", false);
  std::string reasoning, answer;
  const auto take = [&](const auto& pieces) {
    for (const auto& piece : pieces) (piece.reasoning ? reasoning : answer) += piece.text;
  };
  for (std::size_t at = 0; at < text.size(); at += step) take(splitter.push(text.substr(at, step)));
  take(splitter.finish());
  return reasoning + '\0' + answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Lines but the last are stop strings; the last is the text.
  std::vector<std::string> stops;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (std::size_t end = 0; stops.size() < 8 && (end = rest.find('\n')) != std::string_view::npos;) {
    if (end > 0) stops.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  std::size_t first = rest.size();
  for (const std::string& stop : stops) first = std::min(first, rest.find(stop));
  const std::string expected(rest.substr(0, std::min(first, rest.size())));
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, rest.size() + 1}) {
    PAGODA_CHECK(shown(stops, rest, step) == expected, "{} stop strings, {} at a time", stops.size(), step);
    PAGODA_CHECK(split(rest, step) == split(rest, rest.size() + 1), "{} at a time", step);
  }
  return 0;
}
