// The readers of a tokenizer.json's parts. `where` names the part in messages; errors as read_tokenizer_json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/declared.h"
#include "text/json_tree.h"
#include "text/tokenizer_json/fields.h"

namespace pagoda::text {

/// Steps of one list, Sequences within Sequences counted out.
constexpr std::size_t kMostSteps = 64;

Status read_normalizer(JsonValue value, const std::string& where, std::vector<NormalizerRule>& out);
Status read_pre_tokenizer(JsonValue value, const std::string& where, std::vector<Cut>& out);
Status read_decoder(JsonValue value, const std::string& where, std::vector<DecoderRule>& out);

/// What a post-processor puts around a text.
struct Surroundings {
  std::vector<std::int64_t> prefix;
  std::vector<std::int64_t> suffix;
};
Status read_post_processor(JsonValue value, const std::string& where, Surroundings& out);

/// {"String": ...} or {"Regex": ...}.
struct PatternText {
  bool literal = true;
  std::string text;
};
Result<PatternText> read_pattern(Fields& fields);

/// A model's tokens as the file lists them, and how it uses them.
struct ReadModel {
  ModelRules rules;
  StringPool texts;
  std::vector<std::int32_t> ids;  ///< of each text
};
Result<ReadModel> read_model(JsonValue value, const std::string& where);

/// Calls `read(element, its place)` for each element of a list.
template <class Read>
Status read_each(JsonValue list, const std::string& where, const Read& read) {
  std::size_t index = 0;
  for (const JsonValue& element : list) {
    std::string place = where;
    place.append("[").append(std::to_string(index++)).append("]");
    const Status status = read(element, place);
    if (!status.ok()) return status.error();
  }
  return Ok{};
}

}  // namespace pagoda::text
