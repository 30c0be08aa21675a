#include "server/protocol/kinds.h"

#include <algorithm>

#include "server/protocol/token_text.h"

namespace pagoda::server {
namespace {

Result<std::int32_t> read_id(const Json& json, std::int64_t vocabulary) {
  const auto id = json.integer();
  if (id && *id >= 0 && *id < vocabulary) return static_cast<std::int32_t>(*id);
  return wrong("must hold token ids from 0 to {}", vocabulary - 1);
}

}  // namespace

Error wrong_kind(std::string_view wanted, const Json& json) {
  return wrong("must be {}, not {}", wanted, kind_name(json));
}

Kind number(Range range, std::function<void(double, ApiRequest&)> set) {
  const std::string bound = format("\"{}\":{}", range.open ? "exclusiveMinimum" : "minimum", range.least);
  return {format(R"({{"type":"number",{},"maximum":{}}})", bound, range.most),
          [range, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is(Json::Kind::kNumber)) return wrong_kind("a number", json);
            const auto value = json.number();
            const bool inside = value && (range.open ? *value > range.least : *value >= range.least);
            if (!inside || *value > range.most) {
              return wrong("must be {} {} and at most {}", range.open ? "over" : "at least", range.least, range.most);
            }
            set(*value, out);
            return Ok{};
          }};
}

Kind integer(std::int64_t least, std::int64_t most, std::function<void(std::int64_t, ApiRequest&)> set) {
  return {format(R"({{"type":"integer","minimum":{},"maximum":{}}})", least, most),
          [=, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is(Json::Kind::kNumber)) return wrong_kind("a whole number", json);
            const auto value = json.integer();
            if (!value || *value < least || *value > most) {
              return wrong("must be a whole number from {} to {}", least, most);
            }
            set(*value, out);
            return Ok{};
          }};
}

Kind boolean(std::function<void(bool, ApiRequest&)> set) {
  return {R"({"type":"boolean"})", [set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_bool()) return wrong_kind("true or false", json);
            set(json.is(Json::Kind::kTrue), out);
            return Ok{};
          }};
}

Kind text(std::function<void(const std::string&, ApiRequest&)> set) {
  return {R"({"type":"string"})", [set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_string()) return wrong_kind("a string", json);
            set(json.text, out);
            return Ok{};
          }};
}

Kind short_text(std::int64_t most, std::function<void(const std::string&, ApiRequest&)> set) {
  return {format(R"({{"type":"string","maxLength":{}}})", most),
          [most, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_string()) return wrong_kind("a string", json);
            if (num_characters(json.text) > most) return wrong("must have at most {} characters", most);
            set(json.text, out);
            return Ok{};
          }};
}

Kind one_of(std::vector<std::string> words, std::function<void(const std::string&, ApiRequest&)> set) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + quoted(word);
  return {format(R"({{"enum":[{}]}})", list),
          [words = std::move(words), list, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_string()) return wrong_kind("a string", json);
            if (std::ranges::find(words, json.text) == words.end()) return wrong("must be one of {}", list);
            set(json.text, out);
            return Ok{};
          }};
}

std::string id_schema(std::int64_t vocabulary) {
  return format(R"({{"type":"integer","minimum":0,"maximum":{}}})", vocabulary - 1);
}

Result<std::vector<std::int32_t>> read_ids(const Json& json, std::int64_t vocabulary) {
  if (!json.is_array()) return wrong_kind("a list of token ids", json);
  std::vector<std::int32_t> ids;
  ids.reserve(json.items.size());
  for (const Json& item : json.items) ids.push_back(PAGODA_TRY(read_id(item, vocabulary)));
  return ids;
}

Field required(std::string_view name, Kind kind, std::string description) {
  return {name, std::move(description), std::move(kind.schema), true, false, std::move(kind.read)};
}
Field optional(std::string_view name, Kind kind, std::string description) {
  return {name, std::move(description), std::move(kind.schema), false, false, std::move(kind.read)};
}
Field nullable(std::string_view name, Kind kind, std::string description) {
  return {name, std::move(description), std::move(kind.schema), false, true, std::move(kind.read)};
}

}  // namespace pagoda::server
