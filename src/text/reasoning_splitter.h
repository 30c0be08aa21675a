// Tells what a model thinks from what it answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::text {

/// Takes an answer in parts and cuts it at the marks around its reasoning: `open`, which counts only where the answer
/// begins (white space may stand before it), and the first `close` after it. The marks, and line breaks right behind
/// them, belong to neither text. How the answer comes in parts never matters: what may yet be a part of a mark is held
/// back. One thread.
class ReasoningSplitter {
 public:
  struct Piece {
    bool reasoning = false;
    std::string text;
  };

  /// Without marks, everything is answer.
  ReasoningSplitter() : state_(State::kAnswer) {}

  /// `inside`: the prompt has ended with the opening mark already.
  ReasoningSplitter(std::string open, std::string close, bool inside);

  /// What can be told apart now, in order; no empty pieces.
  std::vector<Piece> push(std::string_view text);

  /// The rest, now that nothing follows.
  std::vector<Piece> finish();

 private:
  enum class State : std::uint8_t { kBegin, kReasoningBegin, kReasoning, kAnswerBegin, kAnswer };

  bool step(bool last, std::vector<Piece>& out);
  bool skip_breaks(State next);
  void give(bool reasoning, std::size_t size, std::vector<Piece>& out);

  std::string open_, close_;
  State state_;
  std::string held_;
};

}  // namespace pagoda::text
