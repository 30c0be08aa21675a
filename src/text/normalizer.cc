#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/utf8.h"
#include "text/vocabulary.h"

namespace pagoda::text {
namespace {

using Kind = NormalizerRule::Kind;

// A step that makes text longer is bounded: a file's steps must not blow up a request.
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

utf8proc_category_t category_of(char32_t c) {
  return static_cast<utf8proc_category_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->category);
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_mark(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

/// Control, format and private characters; those that are not assigned stay.
bool is_other(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::ranges::any_of(kRanges, [c](const auto& range) { return c >= range.first && c <= range.second; });
}

/// The control characters that machine translation's clean-up takes away, and those that it makes spaces.
bool is_dropped_control(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}
bool is_space_control(char32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

void lower(char32_t c, std::string& out) {
  if (c == 0x130) {  // the one character whose small form has two
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

/// What one character of a text becomes.
void map_character(Kind kind, char32_t c, std::string& out) {
  switch (kind) {
    case Kind::kLowercase:
      return lower(c, out);
    case Kind::kDropMarks:
      return is_mark(c) ? void() : append_utf8(out, c);
    case Kind::kDropMarksInLine:
      return category_of(c) == UTF8PROC_CATEGORY_MN ? void() : append_utf8(out, c);
    case Kind::kControlToSpace:
      return is_dropped_control(c) ? void() : append_utf8(out, is_space_control(c) ? U' ' : c);
    case Kind::kCleanText: {
      const bool kept = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (!kept && is_other(c))) return;
      return append_utf8(out, is_space(c) ? U' ' : c);
    }
    case Kind::kSpaceIdeographs:
      if (is_ideograph(c)) out += ' ';
      append_utf8(out, c);
      if (is_ideograph(c)) out += ' ';
      return;
    default:
      append_utf8(out, c);
  }
}

std::string map_characters(Kind kind, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Part part = read_utf8(text);
    if (part.kind == Utf8Part::Kind::kCharacter) {
      map_character(kind, part.character, out);
    } else {
      out += text.substr(0, part.length);
    }
    text.remove_prefix(part.length);
  }
  return out;
}

std::string strip(std::string_view text, const NormalizerRule& rule) {
  const auto spaces = [](std::string_view rest) {
    const Utf8Part part = read_utf8(rest);
    return part.kind == Utf8Part::Kind::kCharacter && is_space(part.character) ? part.length : 0;
  };
  while (rule.left && !text.empty() && spaces(text) > 0) text.remove_prefix(spaces(text));
  while (rule.right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (spaces(text.substr(begin)) != text.size() - begin) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

std::string byte_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 2);
  for (const char c : text) out += byte_level_character(static_cast<unsigned char>(c));
  return out;
}

/// Replaces in the parts that are UTF-8.
Result<std::string> replace(std::string_view text, const Pattern& pattern, std::string_view content,
                            MatchWorkspace& work) {
  std::string out;
  while (true) {
    const std::size_t valid = valid_utf8_length(text);
    out += PAGODA_TRY(pattern.replace(text.substr(0, valid), content, work));
    text.remove_prefix(valid);
    if (text.empty()) return out;
    const std::size_t bad = read_utf8(text).length;
    out += text.substr(0, bad);
    text.remove_prefix(bad);
    if (text.empty()) return out;
  }
}

/// One character for one character needs no expressions.
std::string replace_bytes(std::string_view text, std::string_view what, std::string_view content) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  while (true) {
    const std::size_t found = text.find(what);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += content;
    if (out.size() > kMaxBytes) return out;  // the caller refuses it
    text.remove_prefix(found + what.size());
  }
}

}  // namespace

Result<Normalizer> Normalizer::create(std::vector<NormalizerRule> rules) {
  std::vector<Step> steps;
  for (NormalizerRule& rule : rules) {
    Step& step = steps.emplace_back();
    if (rule.kind == Kind::kReplace && (!rule.literal || rule.pattern.empty())) {
      step.pattern.push_back(
          PAGODA_TRY(rule.literal ? Pattern::literal(rule.pattern) : Pattern::compile(rule.pattern)));
    }
    step.rule = std::move(rule);
  }
  return Normalizer(std::move(steps));
}

std::size_t Normalizer::cut_in_front(std::string_view text) const {
  for (const Step& step : steps_) {
    if (step.rule.kind != Kind::kStrip || !step.rule.left) continue;
    return text.size() - strip(text, {.kind = Kind::kStrip, .left = true}).size();
  }
  return 0;
}

Result<std::string> Normalizer::apply(std::string_view text, MatchWorkspace& work) const {
  std::string now(text);
  for (const Step& step : steps_) {
    const NormalizerRule& rule = step.rule;
    if (rule.kind == Kind::kForm) {
      now = normal_form(now, rule.form);
    } else if (rule.kind == Kind::kStrip) {
      now = strip(now, rule);
    } else if (rule.kind == Kind::kPrepend) {
      if (!now.empty()) now.insert(0, rule.content);
    } else if (rule.kind == Kind::kByteCharacters) {
      now = byte_characters(now);
    } else if (rule.kind == Kind::kReplace) {
      now = step.pattern.empty() ? replace_bytes(now, rule.pattern, rule.content)
                                 : PAGODA_TRY(replace(now, step.pattern.front(), rule.content, work));
    } else {
      now = map_characters(rule.kind, now);
    }
    if (now.size() > kMaxBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "the text grows to {} bytes while it is normalised; at most {} are allowed", now.size(), kMaxBytes);
    }
  }
  return now;
}

}  // namespace pagoda::text
