// Each command with its flags.
#pragma once

#include <CLI/CLI.hpp>
#include <span>

#include "apps/arguments.h"

namespace pagoda::apps {

struct CommandEntry {
  const char* name;
  const char* help;
  Command command;
  void (*add)(CLI::App&, Arguments&);  ///< the command's arguments, which write into the struct
};

std::span<const CommandEntry> commands();

}  // namespace pagoda::apps
