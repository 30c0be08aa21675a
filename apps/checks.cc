#include "apps/checks.h"

#include <charconv>
#include <optional>

#include "base/format.h"

namespace pagoda::apps {
namespace {

/// The number that the text is, and nothing else.
template <class T>
std::optional<T> read(const std::string& text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

CLI::Validator number(double least, bool open, double most) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto value = read<double>(text);
        const bool fits = value && std::isfinite(*value) && (open ? *value > least : *value >= least);
        if (fits && *value <= most) return {};
        const std::string range = pagoda::format("{} {}", open ? "over" : "of at least", least);
        if (most == HUGE_VAL) return pagoda::format("must be a number {}, not \"{}\"", range, text);
        return pagoda::format("must be a number {} and at most {}, not \"{}\"", range, most, text);
      },
      {});
}

}  // namespace

CLI::Validator integer(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const auto value = read<std::int64_t>(text);
        if (value && *value >= least && *value <= most) return {};
        if (most == kMost) return pagoda::format("must be a whole number of at least {}, not \"{}\"", least, text);
        return pagoda::format("must be a whole number from {} to {}, not \"{}\"", least, most, text);
      },
      {});
}

CLI::Validator natural() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (read<std::uint64_t>(text)) return {};
        return pagoda::format("must be a whole number from 0 to {}, not \"{}\"", UINT64_MAX, text);
      },
      {});
}

CLI::Validator at_least(double least, double most) { return number(least, false, most); }

CLI::Validator over(double least, double most) { return number(least, true, most); }

CLI::Validator power_of_two(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto value = read<std::int64_t>(text);
        if (value && *value >= least && *value <= most && (*value & (*value - 1)) == 0) return {};
        return pagoda::format("must be a power of two from {} to {}, not \"{}\"", least, most, text);
      },
      {});
}

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string& text) -> std::string {
        std::string list;
        for (const std::string& word : words) {
          if (text == word) return {};
          list += (list.empty() ? "" : ", ") + word;
        }
        return pagoda::format("must be one of {}, not \"{}\"", list, text);
      },
      {});
}

CLI::Validator device() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "auto" || text == "cpu" || text == "cuda" || text == "reference") return {};
        if (text.starts_with("cuda:") && read<std::int64_t>(text.substr(5)).value_or(-1) >= 0) return {};
        return pagoda::format("must be auto, cpu, cuda, cuda:N or reference, not \"{}\"", text);
      },
      {});
}

CLI::Validator some_text() {
  return CLI::Validator([](std::string& text) -> std::string { return text.empty() ? "must not be empty" : ""; }, {});
}

}  // namespace pagoda::apps
