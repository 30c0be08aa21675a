#include <utility>

#include "base/result.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_json/elements.h"
#include "text/tokenizer_json/vocabulary_builder.h"

namespace pagoda::text {
namespace {

constexpr const char* kFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";

std::string part(const char* name) { return std::string(kFile) + ": " + name; }

/// Byte-level BPE works on bytes; the characters for them are made only for what looks at characters.
void use_bytes(DeclaredTokenizer& declared) {
  ModelRules& rules = declared.model;
  const bool last = !declared.cuts.empty() && declared.cuts.back().kind == Cut::Kind::kByteCharacters;
  const bool plain = rules.word_prefix.empty() && rules.word_suffix.empty() && !rules.byte_fallback;
  if (rules.kind != ModelRules::Kind::kBytePairs || !last || !plain) return;
  rules.byte_level = true;
  declared.cuts.pop_back();
}

Status read_steps(Fields& fields, DeclaredTokenizer& out) {
  if (const auto value = fields.find("normalizer")) {
    PAGODA_TRY(read_normalizer(*value, part("normalizer"), out.normalizer));
  }
  if (const auto value = fields.find("pre_tokenizer")) {
    PAGODA_TRY(read_pre_tokenizer(*value, part("pre_tokenizer"), out.cuts));
  }
  if (const auto value = fields.find("decoder")) {
    PAGODA_TRY(read_decoder(*value, part("decoder"), out.decoder));
  } else {
    out.decoder.push_back({.kind = DecoderRule::Kind::kJoin});
  }
  return Ok{};
}

Status read_added_tokens(Fields& fields, VocabularyBuilder& vocabulary) {
  const auto list = fields.find("added_tokens");
  if (!list) return Ok{};
  if (!list->is(JsonValue::Kind::kArray)) return fields.wrong_kind("added_tokens", *list, "a list");
  return read_each(*list, part("added_tokens"), [&](JsonValue element, const std::string& place) -> Status {
    const AddedEntry entry = PAGODA_TRY(read_added_entry(element, place, std::nullopt));
    return vocabulary.add(entry, place);
  });
}

/// {"151643": {...}, ...}
Status read_config_tokens(JsonValue object, VocabularyBuilder& vocabulary) {
  const std::string where = std::string(kConfigFile) + ": added_tokens_decoder";
  for (const JsonValue& entry : object) {
    const std::string_view key = entry.key();
    const bool number = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string_view::npos;
    if (!number) return fail(ErrorCode::kTokenizerInvalid, "{}: {} is no id", where, shown(key));
    const std::int64_t id = std::stol(std::string(key));
    const AddedEntry added = PAGODA_TRY(read_added_entry(entry, where, id));
    PAGODA_TRY(vocabulary.add(added, where));
  }
  return Ok{};
}

/// A named token: "<s>", or {"content": "<s>", ...}. Absent if the file does not name one.
Result<std::optional<std::string_view>> named_token(JsonValue root, std::string_view name) {
  std::optional<std::string_view> out;
  for (const JsonValue& field : root) {
    if (field.key() != name || field.is(JsonValue::Kind::kNull)) continue;
    JsonValue text = field;
    if (field.is(JsonValue::Kind::kObject)) {
      for (const JsonValue& inner : field) {
        if (inner.key() == "content") text = inner;
      }
    }
    if (!text.is(JsonValue::Kind::kString)) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: {} is {}; a token is expected", kConfigFile, name,
                  name_of(field.kind()));
    }
    out = text.string();
  }
  return out;
}

Result<std::optional<std::int64_t>> named_id(JsonValue root, std::string_view name, bool needed,
                                             const VocabularyBuilder& vocabulary) {
  const auto text = PAGODA_TRY(named_token(root, name));
  if (!text || text->empty()) return std::optional<std::int64_t>{};
  const auto id = vocabulary.find(*text);
  if (!id && needed) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: {} is {}, which is no token", kConfigFile, name, shown(*text));
  }
  return id ? std::optional<std::int64_t>(*id) : std::nullopt;
}

/// A flag; absent if the file does not say.
Result<std::optional<bool>> flag(JsonValue root, std::string_view name) {
  std::optional<bool> out;
  for (const JsonValue& field : root) {
    if (field.key() != name || field.is(JsonValue::Kind::kNull)) continue;
    if (!field.is(JsonValue::Kind::kTrue) && !field.is(JsonValue::Kind::kFalse)) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: {} is {}; a boolean is expected", kConfigFile, name,
                  name_of(field.kind()));
    }
    out = field.is(JsonValue::Kind::kTrue);
  }
  return out;
}

/// Where the file says whether BOS and EOS stand around a text, that replaces what the post-processor puts there.
Status read_config(JsonValue root, VocabularyBuilder& vocabulary, TokenizerSource& out, Surroundings& around) {
  if (!root.is(JsonValue::Kind::kObject)) {
    return fail(ErrorCode::kTokenizerInvalid, "{} is {}; an object is expected", kConfigFile, name_of(root.kind()));
  }
  for (const JsonValue& field : root) {
    if (field.key() == "added_tokens_decoder" && field.is(JsonValue::Kind::kObject)) {
      PAGODA_TRY(read_config_tokens(field, vocabulary));
    }
  }
  const auto add_bos = PAGODA_TRY(flag(root, "add_bos_token"));
  const auto add_eos = PAGODA_TRY(flag(root, "add_eos_token"));
  out.bos = PAGODA_TRY(named_id(root, "bos_token", add_bos.value_or(false), vocabulary));
  out.eos = PAGODA_TRY(named_id(root, "eos_token", true, vocabulary));
  out.padding = PAGODA_TRY(named_id(root, "pad_token", false, vocabulary));
  if (!add_bos && !add_eos) return Ok{};
  around = {};
  if (add_bos.value_or(false) && out.bos) around.prefix = {*out.bos};
  if (add_eos.value_or(false) && out.eos) around.suffix = {*out.eos};
  return Ok{};
}

Status check_ids(std::string_view what, std::span<const std::int64_t> ids, const VocabularyBuilder& vocabulary,
                 std::vector<std::int32_t>& out) {
  for (const std::int64_t id : ids) {
    if (!vocabulary.has(id)) {
      return fail(ErrorCode::kTokenizerInvalid, "{} names the id {}, which is no token's", what, id);
    }
    out.push_back(static_cast<std::int32_t>(id));
  }
  return Ok{};
}

/// Added tokens that are looked for in the normalised text are looked for as the normalizers write them.
Status normalize_added(DeclaredTokenizer& declared) {
  if (declared.normalizer.empty()) return Ok{};
  const Normalizer normalizer = PAGODA_TRY(Normalizer::create(declared.normalizer));
  MatchWorkspace work;
  for (AddedToken& token : declared.added) {
    if (token.normalized) token.looked_for = PAGODA_TRY(normalizer.apply(token.looked_for, work));
  }
  return Ok{};
}

}  // namespace

Result<TokenizerSource> read_tokenizer_json(const TokenizerFiles& files) {
  const JsonTree tree = PAGODA_TRY(JsonTree::parse(files.tokenizer, kFile));
  Fields fields = PAGODA_TRY(Fields::of(tree.root(), kFile));
  if (const auto version = PAGODA_TRY(fields.string_or("version", "1.0")); version != "1.0") {
    return fail(ErrorCode::kTokenizerUnsupported, "{}: the version {} is not supported; 1.0 is", kFile, shown(version));
  }
  TokenizerSource out;
  out.kind = kFile;
  DeclaredTokenizer& declared = out.declared.emplace();
  PAGODA_TRY(read_steps(fields, declared));
  const JsonValue model_value = PAGODA_TRY(fields.get("model"));
  ReadModel model = PAGODA_TRY(read_model(model_value, part("model")));
  VocabularyBuilder vocabulary = PAGODA_TRY(VocabularyBuilder::create(model));
  PAGODA_TRY(read_added_tokens(fields, vocabulary));
  Surroundings around;
  if (const auto value = fields.find("post_processor")) {
    PAGODA_TRY(read_post_processor(*value, part("post_processor"), around));
  }
  for (const char* ignored : {"truncation", "padding"}) (void)fields.find(ignored);
  PAGODA_TRY(fields.finish());
  if (!files.config.empty()) {
    const JsonTree config = PAGODA_TRY(JsonTree::parse(files.config, kConfigFile));
    PAGODA_TRY(read_config(config.root(), vocabulary, out, around));
  }
  PAGODA_TRY(check_ids("the post-processor", around.prefix, vocabulary, declared.prefix));
  PAGODA_TRY(check_ids("the post-processor", around.suffix, vocabulary, declared.suffix));
  PAGODA_TRY(check_ids("eos_token_id", files.end_ids, vocabulary, declared.end_ids));
  PAGODA_TRY(std::move(vocabulary).finish(model.rules.byte_fallback, out));
  declared.model = std::move(model.rules);
  use_bytes(declared);
  PAGODA_TRY(normalize_added(declared));
  return out;
}

}  // namespace pagoda::text
