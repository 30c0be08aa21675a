#include "text/tokenizer_json/vocabulary_builder.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "text/vocabulary.h"

namespace pagoda::text {
namespace {

// Files pad vocabularies, but a small file must not ask for much memory.
constexpr std::int64_t kMostTokens = 1 << 22;
constexpr std::int64_t kFreeIds = 4096;
constexpr std::int64_t kMostAdded = 1 << 16;

std::int64_t most_id(std::int64_t count) { return std::min(kMostTokens, 4 * count + kFreeIds); }

/// "<0xHH>" with the digits as byte fallback writes them.
bool is_byte_text(std::string_view text) {
  return parse_byte_token(text).has_value() && text.substr(3, 2).find_first_of("abcdef") == std::string_view::npos;
}

}  // namespace

Result<AddedEntry> read_added_entry(JsonValue value, const std::string& where, std::optional<std::int64_t> id_known) {
  Fields fields = PAGODA_TRY(Fields::of(value, where));
  AddedEntry out;
  out.text = PAGODA_TRY(fields.string("content"));
  out.id = id_known ? *id_known : PAGODA_TRY(fields.integer("id"));
  out.rule.special = PAGODA_TRY(fields.boolean_or("special", false));
  out.rule.single_word = PAGODA_TRY(fields.boolean_or("single_word", false));
  out.rule.strips_left = PAGODA_TRY(fields.boolean_or("lstrip", false));
  out.rule.strips_right = PAGODA_TRY(fields.boolean_or("rstrip", false));
  out.rule.normalized = PAGODA_TRY(fields.boolean_or("normalized", !out.rule.special));
  (void)fields.find("__type");
  PAGODA_TRY(fields.finish());
  return out;
}

VocabularyBuilder::VocabularyBuilder(const ReadModel& model) : model_ids_(&model.ids), index_(model.texts) {}

Result<VocabularyBuilder> VocabularyBuilder::create(const ReadModel& model) {
  VocabularyBuilder out(model);
  const std::int64_t most = most_id(std::ssize(model.ids));
  out.texts_.reserve(model.ids.size() + 1024);
  for (std::int32_t i = 0; i < std::ssize(model.ids); ++i) {
    const std::int32_t id = model.ids[static_cast<std::size_t>(i)];
    if (id >= most) {
      return fail(ErrorCode::kTokenizerInvalid,
                  "tokenizer.json: model: the token {} has the id {}; vocab has {} tokens", shown(model.texts[i]), id,
                  model.ids.size());
    }
    if (out.index_.insert(i).has_value()) {
      return fail(ErrorCode::kTokenizerInvalid, "tokenizer.json: model: the token {} is twice in vocab",
                  shown(model.texts[i]));
    }
    if (static_cast<std::size_t>(id) >= out.used_.size()) {
      out.used_.resize(static_cast<std::size_t>(id) + 1);
      out.texts_.resize(static_cast<std::size_t>(id) + 1);
    }
    if (out.used_[id]) {
      return fail(ErrorCode::kTokenizerInvalid, "tokenizer.json: model: the tokens {} and {} have both the id {}",
                  shown(out.texts_[id]), shown(model.texts[i]), id);
    }
    out.used_[id] = true;
    out.texts_[id] = model.texts[i];
  }
  out.count_ = std::ssize(model.ids);
  out.in_model_ = out.used_;
  return out;
}

std::optional<std::int32_t> VocabularyBuilder::find(std::string_view text) const {
  if (const auto place = index_.find(text)) return (*model_ids_)[static_cast<std::size_t>(*place)];
  const auto place = added_places_.find(std::string(text));
  if (place == added_places_.end()) return std::nullopt;
  return added_[place->second].id;
}

bool VocabularyBuilder::has(std::int64_t id) const {
  return id >= 0 && id < std::ssize(used_) && used_[static_cast<std::size_t>(id)];
}

Status VocabularyBuilder::add(const AddedEntry& entry, const std::string& where) {
  if (entry.text.empty()) return Ok{};  // the library passes over such an entry too: it is found nowhere
  const auto there = find(entry.text);
  if (there.has_value() && *there != entry.id) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: the token {} has the id {}, and elsewhere {}", where,
                shown(entry.text), entry.id, *there);
  }
  if (!there.has_value() && has(entry.id)) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: the token {} has the id {}, which {} has already", where,
                shown(entry.text), entry.id, shown(texts_[static_cast<std::size_t>(entry.id)]));
  }
  if (entry.id < 0 || entry.id >= most_id(count_ + 1) || std::ssize(added_) >= kMostAdded) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: the token {} with the id {} is one too many: there are {} tokens",
                where, shown(entry.text), entry.id, count_);
  }
  const auto id = static_cast<std::size_t>(entry.id);
  if (id >= used_.size()) {
    used_.resize(id + 1);
    texts_.resize(id + 1);
  }
  if (!used_[id]) ++count_;
  used_[id] = true;
  texts_[id] = entry.text;
  const auto [place, fresh] = added_places_.try_emplace(std::string(entry.text), added_.size());
  if (fresh) added_.emplace_back();
  AddedToken& token = added_[place->second];
  token = entry.rule;
  token.id = static_cast<std::int32_t>(entry.id);
  token.looked_for = entry.text;
  return Ok{};
}

Status VocabularyBuilder::finish(bool byte_fallback, TokenizerSource& out) && {
  const auto kind = [](TokenType type) { return static_cast<std::int32_t>(type); };
  out.types.assign(texts_.size(), kind(TokenType::kNormal));
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    if (!used_[id]) out.types[id] = kind(TokenType::kUnused);
    if (byte_fallback && is_byte_text(texts_[id])) out.types[id] = kind(TokenType::kByte);
  }
  for (const AddedToken& token : added_) {
    const auto id = static_cast<std::size_t>(token.id);
    const bool in_model = id < in_model_.size() && in_model_[id];
    if (token.special) {
      out.types[id] = kind(TokenType::kControl);
    } else if (!in_model || looks_like_mark(token.looked_for)) {
      out.types[id] = kind(TokenType::kUserDefined);
    }
  }
  out.tokens = std::move(texts_);
  out.declared->added = std::move(added_);
  return Ok{};
}

}  // namespace pagoda::text
