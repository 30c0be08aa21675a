#include "apps/checks.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.h"
#include "base/utf8.h"

namespace pagoda::apps {
namespace {

/// The number that the text is, and nothing else.
template <class T>
std::optional<T> read(std::string_view text) {
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
        return pagoda::format("must be a number {} {} and at most {}, not \"{}\"", open ? "over" : "of at least", least,
                              most, text);
      },
      {});
}

/// What a browser sends as Origin: scheme://host[:port] in small letters, and no port that goes without saying.
bool is_origin(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view kDigits = "0123456789";
  const auto all_of = [](std::string_view part, const std::string& allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == std::string_view::npos;
  };
  const std::string letters_digits = std::string(kLetters) + std::string(kDigits);
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return false;
  const std::string_view scheme = text.substr(0, colon);
  std::string_view host = text.substr(colon + 3);
  if (!all_of(scheme, letters_digits + "+-.") || kLetters.find(scheme.front()) == std::string_view::npos) return false;
  const std::size_t bracket = host.find(']');
  const std::size_t end = host.find(':', host.starts_with('[') && bracket != std::string_view::npos ? bracket : 0);
  if (end != std::string_view::npos) {
    const std::string port(host.substr(end + 1));
    const auto number = all_of(port, std::string(kDigits)) ? read<std::uint16_t>(port) : std::nullopt;
    if (!number || *number == 0 || port.front() == '0') return false;
    if ((scheme == "http" && *number == 80) || (scheme == "https" && *number == 443)) return false;
    host = host.substr(0, end);
  }
  if (!host.starts_with('[')) return all_of(host, letters_digits + "-._");
  return host.ends_with(']') && all_of(host.substr(1, host.size() - 2), "0123456789abcdef:.");
}

}  // namespace

CLI::Validator origin() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "*" || is_origin(text)) return {};
        return pagoda::format(
            "must be * or an origin as browsers send it, scheme://host[:port] in small letters, without a path and "
            "without the scheme's own port, not \"{}\"",
            text);
      },
      {});
}

CLI::Validator integer(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const auto value = read<std::int64_t>(text);
        if (value && *value >= least && *value <= most) return {};
        return pagoda::format("must be a whole number from {} to {}, not \"{}\"", least, most, text);
      },
      {});
}

std::optional<std::vector<std::int64_t>> read_integers(std::string_view text) {
  std::vector<std::int64_t> values;
  for (;;) {
    const std::size_t comma = text.find(',');
    const auto value = read<std::int64_t>(text.substr(0, comma));
    if (!value) return std::nullopt;
    values.push_back(*value);
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

CLI::Validator integers(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        const auto values = read_integers(text);
        const auto inside = [=](std::int64_t value) { return value >= least && value <= most; };
        if (values && std::ranges::all_of(*values, inside)) return {};
        return pagoda::format("must be whole numbers from {} to {}, as 1,2,3, not \"{}\"", least, most, text);
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
        if (text.starts_with("cuda:") && read<std::int64_t>(std::string_view(text).substr(5)).value_or(-1) >= 0)
          return {};
        return pagoda::format("must be auto, cpu, cuda, cuda:N or reference, not \"{}\"", text);
      },
      {});
}

CLI::Validator some_text() {
  return CLI::Validator([](std::string& text) -> std::string { return text.empty() ? "must not be empty" : ""; }, {});
}

CLI::Validator utf8() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::size_t valid = valid_utf8_length(text);
        if (valid == text.size()) return {};
        return pagoda::format("must be UTF-8, and is none from offset {} on", valid);
      },
      {});
}

}  // namespace pagoda::apps
