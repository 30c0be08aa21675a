// A configuration file in place of flags.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::apps {

/// What is wrong with these arguments of the command, whatever else there may be on its line; empty if nothing is.
using CheckAlone = std::function<std::string(std::vector<std::string>)>;

/// The arguments of a command line (without the program's name) with those of the file that `--config` names put in
/// front of the command's others: TOML whose keys are long flags without their dashes, as `port = 8080`,
/// `api-key = ["a", "b"]`, `no-page = true`. Every key is checked; the line wins: what it says itself, or what excludes
/// something that it says, is not taken from the file. Without `--config`, the arguments as they are. Errors:
/// kInvalidArgument, naming the file, and the line in it of a key that is not taken.
Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments, const CLI::App& command,
                                                  const CheckAlone& check);

}  // namespace pagoda::apps
