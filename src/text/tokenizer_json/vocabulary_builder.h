// Joins a model's tokens with those that files add to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer_json/elements.h"
#include "text/tokenizer_source.h"

namespace pagoda::text {

/// An added token as a file describes it.
struct AddedEntry {
  std::string_view text;
  std::int64_t id = -1;
  AddedToken rule;  ///< without id and text
};
/// `id_known`: the entry's id when its object does not say it (tokenizer_config.json has it as the key).
Result<AddedEntry> read_added_entry(JsonValue value, const std::string& where, std::optional<std::int64_t> id_known);

class VocabularyBuilder {
 public:
  /// Errors, kTokenizerInvalid: a text or an id twice.
  static Result<VocabularyBuilder> create(const ReadModel& model);

  /// Adds a token, or gives one that is there the rules of `entry`. Errors, kTokenizerInvalid: its text has another id,
  /// or its id another text.
  Status add(const AddedEntry& entry, const std::string& where);

  std::optional<std::int32_t> find(std::string_view text) const;
  bool has(std::int64_t id) const;

  /// Fills tokens, types and the list of added tokens. Errors, kTokenizerInvalid: ids far beyond the number of tokens.
  Status finish(bool byte_fallback, TokenizerSource& out) &&;

 private:
  explicit VocabularyBuilder(const ReadModel& model);

  std::vector<std::string> texts_;  ///< by id
  std::vector<bool> used_;          ///< by id
  std::int64_t count_ = 0;
  std::vector<bool> in_model_;  ///< by id
  std::vector<AddedToken> added_;
  std::unordered_map<std::string, std::size_t> added_places_;  ///< of a text in added_
  const std::vector<std::int32_t>* model_ids_;
  StringIndex index_;  ///< over the model's texts
};

}  // namespace pagoda::text
