#include "text/reasoning_splitter.h"

#include <algorithm>

namespace pagoda::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// The length of the longest end of `text` that begins `mark`, and is not all of it.
std::size_t begun(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(std::string open, std::string close, bool inside)
    : open_(std::move(open)), close_(std::move(close)), state_(inside ? State::kReasoningBegin : State::kBegin) {}

std::vector<ReasoningSplitter::Piece> ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  std::vector<Piece> out;
  while (step(false, out)) {
  }
  return out;
}

std::vector<ReasoningSplitter::Piece> ReasoningSplitter::finish() {
  std::vector<Piece> out;
  while (step(true, out)) {
  }
  return out;
}

/// Whether another step may get further.
bool ReasoningSplitter::step(bool last, std::vector<Piece>& out) {
  switch (state_) {
    case State::kBegin: {
      const std::size_t begin = std::min(held_.find_first_not_of(kSpace), held_.size());
      const std::string_view rest = std::string_view(held_).substr(begin);
      if (rest.starts_with(open_)) {
        held_.erase(0, begin + open_.size());
        state_ = State::kReasoningBegin;
        return true;
      }
      if (!last && open_.starts_with(rest)) return false;
      state_ = State::kAnswer;
      return true;
    }
    case State::kReasoningBegin:
      return skip_breaks(State::kReasoning);
    case State::kReasoning: {
      const std::size_t end = held_.find(close_);
      if (end == std::string::npos) {
        give(true, held_.size() - (last ? 0 : begun(held_, close_)), out);
        return false;
      }
      give(true, end, out);
      held_.erase(0, close_.size());
      state_ = State::kAnswerBegin;
      return true;
    }
    case State::kAnswerBegin:
      return skip_breaks(State::kAnswer);
    case State::kAnswer:
      give(false, held_.size(), out);
      return false;
  }
  return false;
}

bool ReasoningSplitter::skip_breaks(State next) {
  held_.erase(0, std::min(held_.find_first_not_of("\r\n"), held_.size()));
  if (held_.empty()) return false;
  state_ = next;
  return true;
}

void ReasoningSplitter::give(bool reasoning, std::size_t size, std::vector<Piece>& out) {
  if (size == 0) return;
  out.push_back({.reasoning = reasoning, .text = held_.substr(0, size)});
  held_.erase(0, size);
}

}  // namespace pagoda::text
