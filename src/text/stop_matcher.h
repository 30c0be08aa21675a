// Ends a stream before a stop string without ever showing a part of one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pagoda::text {

/// Several stop strings, made ready to be looked for: an automaton (Aho and Corasick, 1975), which may be a hundred
/// times as large as its strings. Does not change; all matchers of a request share it.
class StopStrings {
 public:
  /// Empty stop strings never match.
  explicit StopStrings(std::vector<std::string> stops);

 private:
  friend class StopMatcher;

  /// The longest end of the text that begins a stop string.
  struct Node {
    std::int64_t depth = 0;     ///< bytes of that end
    std::int32_t fallback = 0;  ///< the node of the next shorter such end
    std::int32_t stop = -1;     ///< the longest stop string that ends here
  };

  void add(std::int32_t stop);
  void link();
  std::int32_t next(std::int32_t node, unsigned char byte) const;

  std::vector<std::string> stops_;
  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, std::int32_t> edges_;  ///< (node, byte) to node
};

/// Looks for stop strings in text that comes in parts. Text that may still turn out to begin a stop string is held
/// back; all else is given out at once. The match that begins first wins, whichever string it is, as if the whole text
/// were searched at its end; how it comes in parts never matters. Time is linear in the text. One thread.
class StopMatcher {
 public:
  explicit StopMatcher(std::shared_ptr<const StopStrings> stops) : stops_(std::move(stops)) {}
  explicit StopMatcher(std::vector<std::string> stops)
      : StopMatcher(std::make_shared<const StopStrings>(std::move(stops))) {}

  /// Takes the next text and returns what may be shown. After a match it returns nothing more.
  std::string push(std::string_view text);

  /// Returns what was held back, now that nothing follows. Empty after a match.
  std::string finish();

  /// Whether a stop string was found: the text given out ends right before it.
  bool stopped() const { return matched_.has_value(); }

  /// The stop string that was found.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  std::string settle();

  std::shared_ptr<const StopStrings> stops_;
  std::int32_t node_ = 0;
  std::string held_;                         ///< taken and not given out yet
  std::optional<std::int64_t> found_begin_;  ///< in held_: a match that an earlier beginning one may still replace
  std::int32_t found_stop_ = -1;
  std::optional<std::string> matched_;
};

}  // namespace pagoda::text
