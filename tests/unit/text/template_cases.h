// The plain-text cases of tests/golden/templates: `in:` lines, each with the `out:` or `error:` that jinja2 gave.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text::cases {

inline constexpr std::int64_t kNow = 1753500000;  // as in tools/template_oracle.py, which also sets TZ to UTC

struct Case {
  std::string where;  ///< file and line
  std::string input;
  std::string expected;
  bool is_error = false;
};

inline std::string golden_path(std::string_view name) {
  return std::string(PAGODA_SOURCE_DIR) + "/tests/golden/templates/" + std::string(name);
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

inline std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char letter = text[++i];
    if (letter == 'x') {
      out += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += letter == 'n' ? '\n' : letter == 'r' ? '\r' : letter == 't' ? '\t' : letter;
    }
  }
  return out;
}

inline std::vector<Case> read_cases(const std::string& name) {
  std::vector<Case> cases;
  std::istringstream lines(read_all(golden_path(name)));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto value = [&](std::string_view tag) {
      return unescape(line.size() > tag.size() ? std::string_view(line).substr(tag.size() + 1) : std::string_view());
    };
    if (line.starts_with("in:")) {
      cases.push_back({.where = name + ":" + std::to_string(number), .input = value("in:"), .expected = {}});
    } else if (line.starts_with("out:")) {
      cases.back().expected = value("out:");
    } else if (line.starts_with("error:")) {
      cases.back().expected = value("error:");
      cases.back().is_error = true;
    }
  }
  return cases;
}

/// An error's words without "chat template, line N: ".
inline std::string words_of(const std::string& message) {
  const std::size_t colon = message.find(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace pagoda::text::cases
