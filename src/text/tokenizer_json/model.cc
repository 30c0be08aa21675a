#include <cmath>
#include <utility>

#include "base/result.h"
#include "text/tokenizer_json/elements.h"

namespace pagoda::text {
namespace {

using Kind = ModelRules::Kind;

constexpr std::int64_t kMostTokens = 1 << 22;
constexpr std::int64_t kMostMerges = 1 << 23;
constexpr std::int64_t kMostWordCharacters = 256;

/// {"token": id}.
Status read_vocabulary(Fields& fields, ReadModel& out) {
  const JsonValue object = PAGODA_TRY(fields.get("vocab", JsonValue::Kind::kObject));
  out.ids.reserve(object.count());
  out.texts.reserve(object.count(), 8 * std::size_t{object.count()});
  for (const JsonValue& entry : object) {
    const auto id = entry.integer();
    if (!id || *id < 0 || *id >= kMostTokens) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: the id of the token {} is no whole number from 0 to {}",
                  fields.where(), shown(entry.key()), kMostTokens - 1);
    }
    out.texts.add(entry.key());
    out.ids.push_back(static_cast<std::int32_t>(*id));
  }
  return Ok{};
}

/// [["token", score], ...]: ids are places.
Status read_scored_vocabulary(Fields& fields, ReadModel& out) {
  const JsonValue list = PAGODA_TRY(fields.get("vocab", JsonValue::Kind::kArray));
  for (const JsonValue& entry : list) {
    const auto index = static_cast<std::int32_t>(out.ids.size());
    const bool pair = entry.is(JsonValue::Kind::kArray) && entry.count() == 2;
    auto part = entry.begin();
    if (!pair || !(*part).is(JsonValue::Kind::kString)) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: entry {} of vocab is no pair of a token and a score",
                  fields.where(), index);
    }
    out.texts.add((*part).string());
    ++part;
    if (!(*part).is(JsonValue::Kind::kNumber) || !std::isfinite((*part).number())) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: the score of entry {} of vocab is no number", fields.where(),
                  index);
    }
    out.rules.scores.push_back((*part).number());
    out.ids.push_back(index);
  }
  return Ok{};
}

/// "left right", with one space.
bool add_written_merge(std::string_view merge, StringPool& out) {
  const std::size_t space = merge.find(' ');
  if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) return false;
  out.add(merge.substr(0, space));
  out.add(merge.substr(space + 1));
  return true;
}

bool add_merge(JsonValue merge, StringPool& out) {
  if (merge.is(JsonValue::Kind::kString)) return add_written_merge(merge.string(), out);
  if (!merge.is(JsonValue::Kind::kArray) || merge.count() != 2) return false;
  for (const JsonValue& part : merge) {
    if (!part.is(JsonValue::Kind::kString)) return false;
    out.add(part.string());
  }
  return true;
}

Status read_merges(Fields& fields, StringPool& out) {
  const JsonValue list = PAGODA_TRY(fields.get("merges", JsonValue::Kind::kArray));
  if (list.count() > kMostMerges) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: {} merges; at most {} are allowed", fields.where(), list.count(),
                kMostMerges);
  }
  out.reserve(2 * std::size_t{list.count()}, 8 * std::size_t{list.count()});
  std::int64_t index = 0;
  for (const JsonValue& merge : list) {
    const bool heading = index == 0 && merge.is(JsonValue::Kind::kString) && merge.string().starts_with("#version");
    if (!heading && !add_merge(merge, out)) {
      return fail(ErrorCode::kTokenizerInvalid, "{}: merge {} is no pair of tokens", fields.where(), index);
    }
    ++index;
  }
  return Ok{};
}

/// The id of the token that a field names.
Status read_unknown(Fields& fields, bool needed, ReadModel& out) {
  const auto field = fields.find("unk_token");
  if (!field && !needed) return Ok{};
  const std::string_view text =
      field && field->is(JsonValue::Kind::kString) ? field->string() : std::string_view("[UNK]");
  if (field && !field->is(JsonValue::Kind::kString)) return fields.wrong_kind("unk_token", *field, "a string");
  for (std::int32_t i = 0; i < out.texts.size(); ++i) {
    if (out.texts[i] == text) out.rules.unknown = out.ids[static_cast<std::size_t>(i)];
  }
  if (out.rules.unknown < 0) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: unk_token is {}, which is no token of vocab", fields.where(),
                shown(text));
  }
  return Ok{};
}

Status read_byte_pairs(Fields& fields, ReadModel& out) {
  out.rules.kind = Kind::kBytePairs;
  const auto dropout = fields.find("dropout");
  if (dropout && !(dropout->is(JsonValue::Kind::kNumber) && dropout->number() == 0)) {
    return fail(ErrorCode::kTokenizerUnsupported, "{}: dropout is not supported: ids would differ from run to run",
                fields.where());
  }
  PAGODA_TRY(read_vocabulary(fields, out));
  PAGODA_TRY(read_merges(fields, out.rules.merges));
  PAGODA_TRY(read_unknown(fields, false, out));
  out.rules.byte_fallback = PAGODA_TRY(fields.boolean_or("byte_fallback", false));
  out.rules.fuse_unknown = PAGODA_TRY(fields.boolean_or("fuse_unk", false));
  out.rules.ignore_merges = PAGODA_TRY(fields.boolean_or("ignore_merges", false));
  out.rules.word_prefix = PAGODA_TRY(fields.string_or("continuing_subword_prefix", ""));
  out.rules.word_suffix = PAGODA_TRY(fields.string_or("end_of_word_suffix", ""));
  return Ok{};
}

Status read_unigram(Fields& fields, ReadModel& out) {
  out.rules.kind = Kind::kUnigram;
  PAGODA_TRY(read_scored_vocabulary(fields, out));
  out.rules.byte_fallback = PAGODA_TRY(fields.boolean_or("byte_fallback", false));
  if (!fields.find("unk_id")) return Ok{};
  const std::int64_t unknown = PAGODA_TRY(fields.integer("unk_id"));
  if (unknown < 0 || unknown >= std::ssize(out.ids)) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: unk_id is {}; vocab has {} entries", fields.where(), unknown,
                out.ids.size());
  }
  out.rules.unknown = static_cast<std::int32_t>(unknown);
  return Ok{};
}

Status read_word_piece(Fields& fields, ReadModel& out) {
  out.rules.kind = Kind::kWordPiece;
  PAGODA_TRY(read_vocabulary(fields, out));
  PAGODA_TRY(read_unknown(fields, true, out));
  out.rules.word_prefix = PAGODA_TRY(fields.string_or("continuing_subword_prefix", "##"));
  if (fields.find("max_input_chars_per_word")) {
    out.rules.most_characters = PAGODA_TRY(fields.integer("max_input_chars_per_word"));
  }
  if (out.rules.most_characters < 0 || out.rules.most_characters > kMostWordCharacters) {
    return fail(ErrorCode::kTokenizerUnsupported, "{}: max_input_chars_per_word is {}; 0 to {} are supported",
                fields.where(), out.rules.most_characters, kMostWordCharacters);
  }
  return Ok{};
}

/// Files of before models had names are told apart by their fields.
std::string kind_of_model(Fields& fields) {
  if (const auto type = fields.find("type"); type && type->is(JsonValue::Kind::kString)) {
    return std::string(type->string());
  }
  const auto vocabulary = fields.find("vocab");
  if (vocabulary && vocabulary->is(JsonValue::Kind::kArray)) return "Unigram";
  return fields.find("merges") ? "BPE" : "";
}

}  // namespace

Result<ReadModel> read_model(JsonValue value, const std::string& where) {
  Fields fields = PAGODA_TRY(Fields::of(value, where));
  const std::string type = kind_of_model(fields);
  ReadModel out;
  if (type == "BPE") {
    PAGODA_TRY(read_byte_pairs(fields, out));
  } else if (type == "Unigram") {
    PAGODA_TRY(read_unigram(fields, out));
  } else if (type == "WordPiece") {
    PAGODA_TRY(read_word_piece(fields, out));
  } else if (type == "WordLevel") {
    out.rules.kind = Kind::kWordLevel;
    PAGODA_TRY(read_vocabulary(fields, out));
    PAGODA_TRY(read_unknown(fields, true, out));
  } else {
    return unknown_element(fields, type);
  }
  if (out.ids.empty()) return fail(ErrorCode::kTokenizerInvalid, "{}: vocab is empty", where);
  if (std::ssize(out.ids) > kMostTokens) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: vocab has {} tokens; at most {} are allowed", where, out.ids.size(),
                kMostTokens);
  }
  PAGODA_TRY(fields.finish());
  return out;
}

}  // namespace pagoda::text
