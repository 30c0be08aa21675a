// A configuration file in place of flags.
#pragma once

#include <CLI/CLI.hpp>

namespace pagoda::apps {

/// TOML whose keys are the long flags without their dashes: `port = 8080`, `api-key = ["a", "b"]`, `no-page = true`.
/// What the command line says counts more. A fault, or a key that is no flag, is a CLI::ParseError.
class TomlConfig final : public CLI::Config {
 public:
  std::string to_config(const CLI::App* app, bool defaults, bool descriptions, std::string prefix) const override;
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  /// CLI11 takes flags out of a file and does not act on them. To be called on the command after parsing: it sets those
  /// that the file says are true.
  void apply_flags(CLI::App& command) const;

 private:
  mutable std::vector<std::pair<std::string, std::string>> given_;
};

}  // namespace pagoda::apps
