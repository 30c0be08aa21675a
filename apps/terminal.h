// What people see on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pagoda/generation.h"
#include "pagoda/model.h"
#include "pagoda/progress.h"

namespace pagoda::apps {

/// A sink that draws one line that is written over and over, from half a second into the load on; none if stderr is no
/// terminal.
ProgressSink progress_line();

/// One line on stderr: "pagoda: error: " and the sentence, whose control characters (a template's own words may run
/// over lines) become spaces.
void print_error(std::string sentence);

/// Shows an answer as it comes: the answer itself on stdout, what the model thinks before it on stderr.
class AnswerPrinter {
 public:
  /// False: standard output takes nothing any more.
  bool show(Channel channel, std::string_view text);

  /// The last line ends.
  void end();

 private:
  void leave(Channel next);

  Channel channel_ = Channel::kContent;
  bool line_open_ = false;
};

/// "load 0.12 s, first token 0.03 s, prefill 37 tokens at 1204 tok/s, decode 128 tokens at 183 tok/s".
/// What was not done, as with --max-tokens 0, is left out.
std::string figures_line(const ModelInfo& info, const Usage& usage, const Timings& timings);

/// Tokens a second; 0 if no time passed.
double rate(std::int64_t tokens, double ms);

}  // namespace pagoda::apps
