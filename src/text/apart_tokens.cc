#include "text/apart_tokens.h"

namespace pagoda::text {
namespace {

std::uint64_t edge(std::int32_t node, char c) {
  return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(c);
}

}  // namespace

ApartTokens::ApartTokens(const Vocabulary& vocabulary) : vocabulary_(&vocabulary), token_{-1} {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool apart = vocabulary.is_control(id) || vocabulary.type(id) == TokenType::kUserDefined;
    if (apart && !vocabulary.texts[id].empty()) add(vocabulary.texts[id], id);
  }
}

void ApartTokens::add(std::string_view text, std::int32_t id) {
  std::int32_t node = 0;
  for (const char c : text) {
    const auto fresh = static_cast<std::int32_t>(token_.size());
    if (edges_.insert(edge(node, c), fresh)) token_.push_back(-1);
    node = *edges_.find(edge(node, c));
  }
  token_[static_cast<std::size_t>(node)] = id;
}

std::optional<ApartTokens::Match> ApartTokens::longest_at(std::string_view text, std::size_t begin,
                                                          const SpecialTokens& special) const {
  std::optional<Match> best;
  std::int32_t node = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const std::int32_t* next = edges_.find(edge(node, text[at]));
    if (next == nullptr) break;
    node = *next;
    const std::int32_t id = token_[static_cast<std::size_t>(node)];
    if (id < 0 || (vocabulary_->is_control(id) && !special.allows(begin, at + 1))) continue;
    best = Match{id, at + 1 - begin};
  }
  return best;
}

}  // namespace pagoda::text
