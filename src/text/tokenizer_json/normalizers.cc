#include <utility>

#include "base/result.h"
#include "text/tokenizer_json/elements.h"

namespace pagoda::text {
namespace {

using Kind = NormalizerRule::Kind;

Status read_bert(Fields& fields, std::vector<NormalizerRule>& out) {
  const bool lowercase = PAGODA_TRY(fields.boolean_or("lowercase", true));
  if (PAGODA_TRY(fields.boolean_or("clean_text", true))) out.push_back({.kind = Kind::kCleanText});
  if (PAGODA_TRY(fields.boolean_or("handle_chinese_chars", true))) out.push_back({.kind = Kind::kSpaceIdeographs});
  if (PAGODA_TRY(fields.boolean_or("strip_accents", lowercase))) {
    out.push_back({.kind = Kind::kForm, .form = NormalForm::kD});
    out.push_back({.kind = Kind::kDropMarksInLine});
  }
  if (lowercase) out.push_back({.kind = Kind::kLowercase});
  return Ok{};
}

Status read_replace(Fields& fields, std::vector<NormalizerRule>& out) {
  NormalizerRule rule{.kind = Kind::kReplace};
  PatternText pattern = PAGODA_TRY(read_pattern(fields));
  rule.literal = pattern.literal;
  rule.pattern = std::move(pattern.text);
  rule.content = PAGODA_TRY(fields.string("content"));
  out.push_back(std::move(rule));
  return Ok{};
}

/// The elements without fields.
std::optional<NormalizerRule> plain_rule(std::string_view type) {
  if (type == "NFC") return NormalizerRule{.kind = Kind::kForm, .form = NormalForm::kC};
  if (type == "NFD") return NormalizerRule{.kind = Kind::kForm, .form = NormalForm::kD};
  if (type == "NFKC") return NormalizerRule{.kind = Kind::kForm, .form = NormalForm::kKC};
  if (type == "NFKD") return NormalizerRule{.kind = Kind::kForm, .form = NormalForm::kKD};
  if (type == "Lowercase") return NormalizerRule{.kind = Kind::kLowercase};
  if (type == "StripAccents") return NormalizerRule{.kind = Kind::kDropMarks};
  if (type == "Nmt") return NormalizerRule{.kind = Kind::kControlToSpace};
  if (type == "ByteLevel") return NormalizerRule{.kind = Kind::kByteCharacters};
  return std::nullopt;
}

}  // namespace

Result<PatternText> read_pattern(Fields& fields) {
  const JsonValue value = PAGODA_TRY(fields.get("pattern"));
  Fields pattern = PAGODA_TRY(Fields::of(value, fields.where() + ": pattern"));
  PatternText out;
  const auto literal = pattern.find("String");
  out.literal = literal.has_value();
  out.text = std::string(PAGODA_TRY(pattern.string(out.literal ? "String" : "Regex")));
  PAGODA_TRY(pattern.finish());
  return out;
}

Status read_normalizer(JsonValue value, const std::string& where, std::vector<NormalizerRule>& out) {
  Fields fields = PAGODA_TRY(Fields::of(value, where));
  const std::string_view type = PAGODA_TRY(type_of(fields));
  if (const auto rule = plain_rule(type)) {
    out.push_back(*rule);
  } else if (type == "Sequence") {
    const JsonValue list = PAGODA_TRY(fields.get("normalizers", JsonValue::Kind::kArray));
    PAGODA_TRY(read_each(list, where, [&](JsonValue element, const std::string& place) {
      return read_normalizer(element, place, out);
    }));
  } else if (type == "Strip") {
    out.push_back({.kind = Kind::kStrip,
                   .left = PAGODA_TRY(fields.boolean_or("strip_left", true)),
                   .right = PAGODA_TRY(fields.boolean_or("strip_right", true))});
  } else if (type == "Prepend") {
    out.push_back({.kind = Kind::kPrepend});
    out.back().content = PAGODA_TRY(fields.string("prepend"));
  } else if (type == "Replace") {
    PAGODA_TRY(read_replace(fields, out));
  } else if (type == "BertNormalizer") {
    PAGODA_TRY(read_bert(fields, out));
  } else {
    return unknown_element(fields, type);
  }
  if (out.size() > kMostSteps) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: more than {} steps", where, kMostSteps);
  }
  return fields.finish();
}

}  // namespace pagoda::text
