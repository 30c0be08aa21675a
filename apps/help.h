// What the program says of itself: help texts, and sentences about words that it does not take.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::apps {

/// Help in at most 80 columns: usage, positionals, then each group of options in the order in which it was added, with
/// defaults in brackets.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// Those of `words` that somebody who wrote `word` has probably meant: the few that begin with it, or the one from
/// which the fewest letters are missing, added, changed or swapped, up to a third of them.
std::vector<std::string> likely(std::string_view word, const std::vector<std::string>& words);

/// The sentence for a first word that is no command of `app`; empty if it is one.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words);

/// The sentence for a line that `app` could not parse.
std::string refusal(const CLI::App& app, const CLI::ParseError& error);

}  // namespace pagoda::apps
