// What the values of flags may be. A check refuses by a sentence without a subject: CLI11 puts the flag's name before
// it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::apps {

/// Nobody means more; sums of a few such numbers stay in 64 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

/// What is kept as a float.
constexpr double kMostFloat = 3.4e38;

/// A whole number in [least, most].
CLI::Validator integer(std::int64_t least, std::int64_t most = kMost);

/// Whole numbers in [least, most] with commas between them; read_integers gives them.
CLI::Validator integers(std::int64_t least, std::int64_t most);

/// "1,2,3" as numbers; none if it is anything else, "1,,3" and "" too.
std::optional<std::vector<std::int64_t>> read_integers(std::string_view text);

/// A whole number in [0, 2⁶⁴ - 1].
CLI::Validator natural();

/// A number in [least, most].
CLI::Validator at_least(double least, double most);

/// A number in (least, most].
CLI::Validator over(double least, double most);

CLI::Validator power_of_two(std::int64_t least, std::int64_t most);
CLI::Validator one_of(std::vector<std::string> words);
CLI::Validator device();
CLI::Validator some_text();
CLI::Validator utf8();

/// "*", or an origin as a browser sends it.
CLI::Validator origin();

}  // namespace pagoda::apps
