#include "text/apart_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace pagoda::text {
namespace {

/// The characters of words, as Rust's expressions know them.
bool is_word(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  switch (property->category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// Where the last character of text[0, end) begins.
std::size_t last_character(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

std::size_t skip_spaces_back(std::string_view text, std::size_t at, std::size_t limit) {
  while (at > limit) {
    const std::size_t begin = last_character(text, at);
    const Utf8Part part = read_utf8(text.substr(begin, at - begin));
    if (part.kind != Utf8Part::Kind::kCharacter || !is_space(part.character)) break;
    at = begin;
  }
  return std::max(at, limit);
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Part part = read_utf8(text.substr(at));
    if (part.kind != Utf8Part::Kind::kCharacter || !is_space(part.character)) break;
    at += part.length;
  }
  return at;
}

bool word_around(std::string_view text, std::size_t begin, std::size_t end) {
  const bool before = begin > 0 && is_word(read_utf8(text.substr(last_character(text, begin))).character);
  return before || (end < text.size() && is_word(read_utf8(text.substr(end)).character));
}

}  // namespace

ApartTokens::ApartTokens(const Vocabulary& vocabulary) : vocabulary_(&vocabulary), declared_(false) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool apart = vocabulary.is_control(id) || vocabulary.type(id) == TokenType::kUserDefined;
    if (!apart || vocabulary.texts[id].empty()) continue;
    tree_.add(vocabulary.texts[id], static_cast<std::int32_t>(rules_.size()));
    rules_.push_back({.id = id, .looked_for = {}, .special = vocabulary.is_control(id)});
  }
}

ApartTokens::ApartTokens(const Vocabulary& vocabulary, const std::vector<AddedToken>& tokens, bool normalized)
    : vocabulary_(&vocabulary), declared_(true) {
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized || token.looked_for.empty()) continue;
    tree_.add(token.looked_for, static_cast<std::int32_t>(rules_.size()));
    rules_.push_back(token);
  }
}

std::optional<ApartTokens::Match> ApartTokens::longest_at(std::string_view text, std::size_t begin, std::size_t offset,
                                                          const SpecialTokens& special) const {
  std::optional<Match> best;
  const bool hides = declared_ && !special.depends_on_place();
  tree_.for_each_at(text, begin, [&](std::int32_t index, std::size_t end) {
    const bool allowed = !vocabulary_->is_control(rules_[static_cast<std::size_t>(index)].id) ||
                         special.allows(offset + begin, offset + end);
    if (allowed || hides) best = Match{index, end};
  });
  return best;
}

void ApartTokens::cut(std::string_view text, std::size_t offset, const SpecialTokens& special,
                      std::vector<TextPart>& out) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto match = longest_at(text, at, offset, special);
    if (!match.has_value()) {
      ++at;
      continue;
    }
    const AddedToken& rule = rules_[static_cast<std::size_t>(match->index)];
    std::size_t begin = at;
    std::size_t end = match->end;
    at = end;
    if (vocabulary_->is_control(rule.id) && !special.allows(offset + begin, offset + end)) continue;
    if (rule.single_word && word_around(text, begin, end)) continue;
    if (rule.strips_left) begin = std::max(skip_spaces_back(text, begin, std::min(begin, done)), done);
    if (rule.strips_right) end = skip_spaces(text, end);
    if (done < begin) out.push_back({done, begin, -1});
    out.push_back({begin, end, rule.id});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), -1});
}

}  // namespace pagoda::text
