// What a single token says, by the steps of decoding that a tokenizer.json declares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/declared.h"

namespace pagoda::text {

/// Compiled steps. One thread: it is used while a vocabulary is made.
class Detokenizer {
 public:
  static Result<Detokenizer> create(const std::vector<DecoderRule>& rules);

  /// The bytes of a token. `first`: no token stands before it.
  Result<std::string> bytes_of(std::string_view token, bool first);

  /// Whether the place of a token matters.
  bool depends_on_place() const;

 private:
  struct Step {
    DecoderRule rule;
    std::vector<Pattern> pattern;  ///< one, of kReplace
  };
  Result<std::string> apply(const Step& step, std::string token, bool first);

  std::vector<Step> steps_;
  MatchWorkspace work_;
};

}  // namespace pagoda::text
