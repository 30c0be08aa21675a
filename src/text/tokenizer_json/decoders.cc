#include <utility>

#include "base/result.h"
#include "text/tokenizer_json/elements.h"

namespace pagoda::text {
namespace {

using Kind = DecoderRule::Kind;

/// How far a list of steps has come: tokens, tokens some of which are runs of bytes, or one text.
enum class Stage { kTokens, kBytes, kText };

/// Steps that would act on what several tokens make together cannot be undone token by token.
Error too_late(const Fields& fields, std::string_view type) {
  return fail(ErrorCode::kTokenizerUnsupported, "{}: the element {} is not supported after tokens were joined",
              fields.where(), shown(type));
}

Status read_strip(Fields& fields, Stage stage, std::vector<DecoderRule>& out) {
  DecoderRule rule{.kind = stage == Stage::kText ? Kind::kStripText : Kind::kStrip};
  rule.content = PAGODA_TRY(fields.character("content"));
  rule.left = PAGODA_TRY(fields.integer("start"));
  rule.right = PAGODA_TRY(fields.integer("stop"));
  if (rule.left < 0 || rule.right < 0) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: start is {} and stop {}; neither may be negative", fields.where(),
                rule.left, rule.right);
  }
  if (stage == Stage::kText && (rule.right > 0 || rule.content.size() > 1)) {
    return fail(ErrorCode::kTokenizerUnsupported, "{}: of a whole text only ASCII at the beginning can be stripped",
                fields.where());
  }
  for (const DecoderRule& earlier : out) {
    if (earlier.kind == Kind::kStripText) return too_late(fields, "Strip");
  }
  out.push_back(std::move(rule));
  return Ok{};
}

Status read_replace(Fields& fields, std::vector<DecoderRule>& out) {
  DecoderRule rule{.kind = Kind::kReplace};
  PatternText pattern = PAGODA_TRY(read_pattern(fields));
  rule.literal = pattern.literal;
  rule.pattern = std::move(pattern.text);
  rule.content = PAGODA_TRY(fields.string("content"));
  out.push_back(std::move(rule));
  return Ok{};
}

Status read_metaspace(Fields& fields, std::vector<DecoderRule>& out) {
  DecoderRule rule{.kind = Kind::kMarkedSpaces};
  rule.pattern = PAGODA_TRY(fields.character("replacement"));
  (void)fields.find("str_rep");
  (void)PAGODA_TRY(fields.boolean_or("split", true));
  const bool prefix = PAGODA_TRY(fields.boolean_or("add_prefix_space", true));
  const std::string scheme = PAGODA_TRY(fields.string_or("prepend_scheme", "always"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return fail(ErrorCode::kTokenizerUnsupported, "{}: the prepend_scheme {} is not supported", fields.where(),
                shown(scheme));
  }
  rule.drops_first = prefix && scheme != "never";
  out.push_back(std::move(rule));
  return Ok{};
}

Status read_byte_level(Fields& fields, std::vector<DecoderRule>& out) {
  for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) {  // of the pre-tokenizer alone
    (void)PAGODA_TRY(fields.boolean_or(name, true));
  }
  out.push_back({.kind = Kind::kByteLevel});
  return Ok{};
}

Status read_word_piece(Fields& fields, std::vector<DecoderRule>& out) {
  out.push_back({.kind = Kind::kWordPiece});
  out.back().pattern = PAGODA_TRY(fields.string_or("prefix", "##"));
  if (PAGODA_TRY(fields.boolean_or("cleanup", true))) out.push_back({.kind = Kind::kCleanUp});
  return Ok{};
}

Status read_step(JsonValue value, const std::string& where, Stage& stage, std::vector<DecoderRule>& out) {
  Fields fields = PAGODA_TRY(Fields::of(value, where));
  const std::string_view type = PAGODA_TRY(type_of(fields));
  if (out.size() > kMostSteps) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: more than {} steps", where, kMostSteps);
  }
  if (type == "Sequence") {
    const JsonValue list = PAGODA_TRY(fields.get("decoders", JsonValue::Kind::kArray));
    PAGODA_TRY(read_each(list, where, [&](JsonValue element, const std::string& place) {
      return read_step(element, place, stage, out);
    }));
    return fields.finish();
  }
  const bool joins = type == "Fuse" || type == "ByteLevel";
  const bool late =
      stage == Stage::kText ? type != "Fuse" && type != "Strip" : stage == Stage::kBytes && type != "Fuse";
  const bool known = joins || type == "ByteFallback" || type == "Strip" || type == "Replace" || type == "Metaspace" ||
                     type == "WordPiece";
  if (!known) return unknown_element(fields, type);
  if (late) return too_late(fields, type);
  if (type == "ByteLevel") PAGODA_TRY(read_byte_level(fields, out));
  if (type == "ByteFallback") out.push_back({.kind = Kind::kByteFallback});
  if (type == "Strip") PAGODA_TRY(read_strip(fields, stage, out));
  if (type == "Replace") PAGODA_TRY(read_replace(fields, out));
  if (type == "Metaspace") PAGODA_TRY(read_metaspace(fields, out));
  if (type == "WordPiece") PAGODA_TRY(read_word_piece(fields, out));
  if (joins) stage = Stage::kText;
  if (type == "ByteFallback") stage = Stage::kBytes;
  return fields.finish();
}

}  // namespace

Status read_decoder(JsonValue value, const std::string& where, std::vector<DecoderRule>& out) {
  Stage stage = Stage::kTokens;
  return read_step(value, where, stage, out);
}

}  // namespace pagoda::text
