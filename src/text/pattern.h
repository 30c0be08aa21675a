// A compiled regular expression that cuts texts, with bounds on what a match may cost.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/byte_range.h"

namespace pagoda::text {

/// Memory for matching, used again and again. One thread.
class MatchWorkspace {
 public:
  MatchWorkspace();
  MatchWorkspace(MatchWorkspace&&) noexcept;
  MatchWorkspace& operator=(MatchWorkspace&&) noexcept;
  ~MatchWorkspace();

 private:
  friend class Pattern;
  struct State;
  std::unique_ptr<State> state_;
};

/// Immutable; any number of threads may use one, each with a workspace of its own.
class Pattern {
 public:
  /// `expression` is in Oniguruma's syntax. Errors: kTokenizerUnsupported for what cannot be compiled.
  static Result<Pattern> compile(std::string_view expression);
  /// The pattern that finds `literal` as it stands.
  static Result<Pattern> literal(std::string_view literal);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  /// The first match in `text`, which is valid UTF-8, at or after `from`; an empty one at npos if there is none.
  /// Errors: kInvalidArgument if the search costs too much.
  Result<ByteRange> find(std::string_view text, std::size_t from, MatchWorkspace& work) const;

  /// All matches that do not overlap, from left to right. An empty one does not follow a match at once.
  Status find_all(std::string_view text, MatchWorkspace& work, std::vector<ByteRange>& out) const;

  /// `text` with `content` in place of each match.
  Result<std::string> replace(std::string_view text, std::string_view content, MatchWorkspace& work) const;

  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<const Code> code);
  static Result<Pattern> compile_translated(std::string_view expression, const std::string& translated);

  std::unique_ptr<const Code> code_;
};

}  // namespace pagoda::text
