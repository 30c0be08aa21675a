#include "text/detokenizer.h"

#include <utility>

#include "base/result.h"
#include "base/utf8.h"
#include "text/vocabulary.h"

namespace pagoda::text {
namespace {

using Kind = DecoderRule::Kind;

constexpr std::size_t kMaxPieceBytes = 1 << 20;

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

/// A space for each mark, or nothing.
std::string without_marks(std::string_view token, std::string_view mark, bool drop) {
  std::string out;
  while (true) {
    const std::size_t found = token.find(mark);
    out += token.substr(0, found);
    if (found == std::string_view::npos) return out;
    if (!drop) out += ' ';
    token.remove_prefix(found + mark.size());
  }
}

/// The clean-up of English that goes with WordPiece.
std::string clean_up(std::string token) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [dirty, clean] : kPairs) replace_all(token, dirty, clean);
  return token;
}

std::string strip(std::string_view token, const DecoderRule& rule) {
  for (std::int64_t i = 0; i < rule.left && token.starts_with(rule.content); ++i) {
    token.remove_prefix(rule.content.size());
  }
  for (std::int64_t i = 0; i < rule.right && token.ends_with(rule.content); ++i) {
    token.remove_suffix(rule.content.size());
  }
  return std::string(token);
}

}  // namespace

Result<Detokenizer> Detokenizer::create(const std::vector<DecoderRule>& rules) {
  Detokenizer out;
  for (const DecoderRule& rule : rules) {
    Step& step = out.steps_.emplace_back();
    step.rule = rule;
    if (rule.kind == Kind::kReplace) {
      step.pattern.push_back(
          PAGODA_TRY(rule.literal ? Pattern::literal(rule.pattern) : Pattern::compile(rule.pattern)));
    }
  }
  return out;
}

bool Detokenizer::depends_on_place() const {
  for (const Step& step : steps_) {
    const Kind kind = step.rule.kind;
    if (kind == Kind::kWordPiece || kind == Kind::kJoin || (kind == Kind::kMarkedSpaces && step.rule.drops_first)) {
      return true;
    }
  }
  return false;
}

Result<std::string> Detokenizer::apply(const Step& step, std::string token, bool first) {
  const DecoderRule& rule = step.rule;
  switch (rule.kind) {
    case Kind::kByteLevel: {
      std::string buffer;
      return std::string(byte_level_bytes(token, buffer));
    }
    case Kind::kByteFallback: {
      const auto byte = parse_byte_token(token);
      return byte.has_value() ? std::string(1, static_cast<char>(*byte)) : token;
    }
    case Kind::kReplace:
      return step.pattern.front().replace(token, rule.content, work_);
    case Kind::kMarkedSpaces:
      return without_marks(token, rule.pattern, first && rule.drops_first);
    case Kind::kWordPiece:
      if (first) return token;
      return token.starts_with(rule.pattern) ? token.substr(rule.pattern.size()) : " " + token;
    case Kind::kCleanUp:
      return clean_up(std::move(token));
    case Kind::kStrip:
      return strip(token, rule);
    case Kind::kStripText:
      return token;
    case Kind::kJoin:
      return first ? token : " " + token;
  }
  return token;
}

Result<std::string> Detokenizer::bytes_of(std::string_view token, bool first) {
  std::string now(token);
  for (const Step& step : steps_) {
    now = PAGODA_TRY(apply(step, std::move(now), first));
    if (now.size() > kMaxPieceBytes) {
      return fail(ErrorCode::kTokenizerInvalid, "the decoder makes {} bytes of one token; at most {} are allowed",
                  now.size(), kMaxPieceBytes);
    }
  }
  return now;
}

}  // namespace pagoda::text
