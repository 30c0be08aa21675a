// A configuration file in place of flags.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::apps {

/// The arguments of a command line (without the program's name) with those of the file that `--config` names put in
/// front of the command's others: TOML whose keys are long flags without their dashes, as `port = 8080`,
/// `api-key = ["a", "b"]`, `no-page = true`. A flag that the line has itself is not taken from the file; one that
/// excludes another of the line is, and the parser refuses the two as if both stood on the line. Without `--config`,
/// the arguments as they are. Errors: kInvalidArgument, naming the file.
Result<std::vector<std::string>> with_config_file(std::vector<std::string> arguments);

}  // namespace pagoda::apps
