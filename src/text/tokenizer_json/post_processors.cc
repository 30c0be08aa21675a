#include <algorithm>
#include <map>

#include "base/result.h"
#include "text/tokenizer_json/elements.h"

namespace pagoda::text {
namespace {

using Ids = std::vector<std::int64_t>;

/// {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
Result<std::map<std::string, Ids, std::less<>>> read_special_tokens(Fields& fields) {
  std::map<std::string, Ids, std::less<>> out;
  const JsonValue object = PAGODA_TRY(fields.get("special_tokens", JsonValue::Kind::kObject));
  for (const JsonValue& entry : object) {
    Fields token = PAGODA_TRY(Fields::of(entry, fields.where() + ": special_tokens"));
    Ids& ids = out[std::string(entry.key())];
    const JsonValue list = PAGODA_TRY(token.get("ids", JsonValue::Kind::kArray));
    for (const JsonValue& element : list) {
      const auto id = element.integer();
      if (!id) return token.wrong_kind("ids", element, "a whole number");
      ids.push_back(*id);
    }
    (void)token.find("id");
    (void)token.find("tokens");
    PAGODA_TRY(token.finish());
  }
  return out;
}

/// {"Sequence": {"id": "A", ...}} or {"SpecialToken": {"id": "<s>", ...}}
struct TemplatePiece {
  bool text = false;
  std::string_view id;
};
Result<TemplatePiece> read_piece(JsonValue value, const std::string& place) {
  Fields outer = PAGODA_TRY(Fields::of(value, place));
  TemplatePiece out;
  out.text = outer.find("Sequence").has_value();
  const JsonValue inside = PAGODA_TRY(outer.get(out.text ? "Sequence" : "SpecialToken"));
  Fields inner = PAGODA_TRY(Fields::of(inside, place));
  out.id = PAGODA_TRY(inner.string("id"));
  (void)inner.find("type_id");
  PAGODA_TRY(inner.finish());
  PAGODA_TRY(outer.finish());
  return out;
}

/// What stands around the text in the template for one text.
Status read_template(Fields& fields, Surroundings& out) {
  const auto tokens = PAGODA_TRY(read_special_tokens(fields));
  const JsonValue single = PAGODA_TRY(fields.get("single", JsonValue::Kind::kArray));
  (void)fields.find("pair");  // two texts at once are asked for nowhere
  Surroundings here;
  bool behind = false;
  const auto add = [&](JsonValue value, const std::string& place) -> Status {
    const TemplatePiece piece = PAGODA_TRY(read_piece(value, place));
    if (piece.text) {
      if (piece.id != "A" || behind) {
        return fail(ErrorCode::kTokenizerUnsupported, "{}: a template with other texts than A, once, is not supported",
                    place);
      }
      behind = true;
      return Ok{};
    }
    const auto found = tokens.find(piece.id);
    if (found == tokens.end()) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: the token {} is not among special_tokens", place, shown(piece.id));
    }
    Ids& side = behind ? here.suffix : here.prefix;
    side.insert(side.end(), found->second.begin(), found->second.end());
    return Ok{};
  };
  PAGODA_TRY(read_each(single, fields.where() + ": single", add));
  if (!behind) return fail(ErrorCode::kTokenizerInvalid, "{}: the template lacks the text", fields.where());
  out.prefix.insert(out.prefix.begin(), here.prefix.begin(), here.prefix.end());
  out.suffix.insert(out.suffix.end(), here.suffix.begin(), here.suffix.end());
  return Ok{};
}

/// ["</s>", 2]
Result<std::int64_t> read_token_pair(Fields& fields, std::string_view name) {
  const JsonValue pair = PAGODA_TRY(fields.get(name, JsonValue::Kind::kArray));
  std::optional<std::int64_t> id;
  for (const JsonValue& element : pair) id = element.integer();
  if (pair.count() != 2 || !id) return fields.wrong_kind(name, pair, "a pair of a token and its id");
  return *id;
}

}  // namespace

Status read_post_processor(JsonValue value, const std::string& where, Surroundings& out) {
  Fields fields = PAGODA_TRY(Fields::of(value, where));
  const std::string_view type = PAGODA_TRY(type_of(fields));
  if (type == "Sequence") {
    const JsonValue list = PAGODA_TRY(fields.get("processors", JsonValue::Kind::kArray));
    PAGODA_TRY(read_each(list, where, [&](JsonValue element, const std::string& place) {
      return read_post_processor(element, place, out);
    }));
  } else if (type == "TemplateProcessing") {
    PAGODA_TRY(read_template(fields, out));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    out.prefix.insert(out.prefix.begin(), PAGODA_TRY(read_token_pair(fields, "cls")));
    out.suffix.push_back(PAGODA_TRY(read_token_pair(fields, "sep")));
    (void)fields.find("trim_offsets");
    (void)fields.find("add_prefix_space");
  } else if (type == "ByteLevel") {  // changes offsets alone
    for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) (void)fields.find(name);
  } else {
    return unknown_element(fields, type);
  }
  if (out.prefix.size() + out.suffix.size() > kMostSteps) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: more than {} tokens around a text", where, kMostSteps);
  }
  return fields.finish();
}

}  // namespace pagoda::text
