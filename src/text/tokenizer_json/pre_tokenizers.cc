#include "base/result.h"
#include "text/tokenizer_json/elements.h"

namespace pagoda::text {
namespace {

using Kind = Cut::Kind;

constexpr const char* kSpace = R"(\s)";
// The words of Rust's expressions, whose \w differs from Oniguruma's.
constexpr const char* kWords = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}]+)"
                               R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\s]+)";
constexpr const char* kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";

Cut expression(std::string pattern, SplitBehavior behavior, bool invert = false) {
  return {.kind = Kind::kPattern, .pattern = std::move(pattern), .behavior = behavior, .invert = invert};
}

Result<SplitBehavior> read_behavior(Fields& fields, std::string_view fallback) {
  const std::string name = PAGODA_TRY(fields.string_or("behavior", fallback));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return fail(ErrorCode::kTokenizerUnsupported, "{}: the behavior {} is not supported", fields.where(), shown(name));
}

Status read_split(Fields& fields, std::vector<Cut>& out) {
  PatternText pattern = PAGODA_TRY(read_pattern(fields));
  const SplitBehavior behavior = PAGODA_TRY(read_behavior(fields, ""));
  const bool invert = PAGODA_TRY(fields.boolean_or("invert", false));
  out.push_back({.kind = pattern.literal ? Kind::kLiteral : Kind::kPattern,
                 .pattern = std::move(pattern.text),
                 .behavior = behavior,
                 .invert = invert});
  return Ok{};
}

Status read_byte_level(Fields& fields, std::vector<Cut>& out) {
  if (PAGODA_TRY(fields.boolean_or("add_prefix_space", true))) out.push_back({.kind = Kind::kPrefixSpace});
  if (PAGODA_TRY(fields.boolean_or("use_regex", true))) {
    out.push_back(expression(gpt2_pattern(), SplitBehavior::kIsolated));
  }
  out.push_back({.kind = Kind::kByteCharacters});
  (void)PAGODA_TRY(fields.boolean_or("trim_offsets", true));  // offsets are nobody's here
  return Ok{};
}

Result<PrependScheme> read_prepend_scheme(Fields& fields) {
  const std::string name = PAGODA_TRY(fields.string_or("prepend_scheme", "always"));
  const bool prefix = PAGODA_TRY(fields.boolean_or("add_prefix_space", true));
  if (!prefix) return PrependScheme::kNever;  // files of before there was a scheme
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return fail(ErrorCode::kTokenizerUnsupported, "{}: the prepend_scheme {} is not supported", fields.where(),
              shown(name));
}

Status read_metaspace(Fields& fields, std::vector<Cut>& out) {
  const std::string mark = PAGODA_TRY(fields.character("replacement"));
  (void)fields.find("str_rep");
  const PrependScheme scheme = PAGODA_TRY(read_prepend_scheme(fields));
  out.push_back({.kind = Kind::kMarkSpaces, .pattern = mark, .prepend = scheme});
  if (PAGODA_TRY(fields.boolean_or("split", true))) {
    out.push_back({.kind = Kind::kLiteral, .pattern = mark, .behavior = SplitBehavior::kMergedWithNext});
  }
  return Ok{};
}

Status read_digits(Fields& fields, std::vector<Cut>& out) {
  const bool single = PAGODA_TRY(fields.boolean_or("individual_digits", false));
  out.push_back(expression(R"(\p{N})", single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  return Ok{};
}

Status read_fixed_length(Fields& fields, std::vector<Cut>& out) {
  const std::int64_t length = PAGODA_TRY(fields.integer("length"));
  if (length < 1) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: the length is {}; at least 1 is expected", fields.where(), length);
  }
  out.push_back({.kind = Kind::kFixedLength, .length = length});
  return Ok{};
}

/// All but Sequence; false: no such element.
Result<bool> read_single(std::string_view type, Fields& fields, std::vector<Cut>& out) {
  if (type == "Split") {
    PAGODA_TRY(read_split(fields, out));
  } else if (type == "ByteLevel") {
    PAGODA_TRY(read_byte_level(fields, out));
  } else if (type == "Metaspace") {
    PAGODA_TRY(read_metaspace(fields, out));
  } else if (type == "Digits") {
    PAGODA_TRY(read_digits(fields, out));
  } else if (type == "FixedLength") {
    PAGODA_TRY(read_fixed_length(fields, out));
  } else if (type == "Punctuation") {
    const SplitBehavior behavior = PAGODA_TRY(read_behavior(fields, "Isolated"));
    out.push_back(expression(kPunctuation, behavior));
  } else if (type == "WhitespaceSplit") {
    out.push_back(expression(kSpace, SplitBehavior::kRemoved));
  } else if (type == "Whitespace") {
    out.push_back(expression(kWords, SplitBehavior::kRemoved, true));
  } else if (type == "BertPreTokenizer") {
    out.push_back(expression(kSpace, SplitBehavior::kRemoved));
    out.push_back(expression(kPunctuation, SplitBehavior::kIsolated));
  } else if (type == "CharDelimiterSplit") {
    const std::string delimiter = PAGODA_TRY(fields.character("delimiter"));
    out.push_back({.kind = Kind::kLiteral, .pattern = delimiter, .behavior = SplitBehavior::kRemoved});
  } else {
    return false;
  }
  return true;
}

}  // namespace

Status read_pre_tokenizer(JsonValue value, const std::string& where, std::vector<Cut>& out) {
  Fields fields = PAGODA_TRY(Fields::of(value, where));
  const std::string_view type = PAGODA_TRY(type_of(fields));
  if (type == "Sequence") {
    const JsonValue list = PAGODA_TRY(fields.get("pretokenizers", JsonValue::Kind::kArray));
    PAGODA_TRY(read_each(list, where, [&](JsonValue element, const std::string& place) {
      return read_pre_tokenizer(element, place, out);
    }));
  } else if (!PAGODA_TRY(read_single(type, fields, out))) {
    return unknown_element(fields, type);
  }
  if (out.size() > kMostSteps) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: more than {} steps", where, kMostSteps);
  }
  return fields.finish();
}

}  // namespace pagoda::text
