// What a field's value may be: each kind makes a schema and a reader out of the same bounds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "server/protocol/fields.h"

namespace pagoda::server {

constexpr std::int64_t kMostTokens = INT32_MAX;
constexpr std::size_t kMostIds = 1024;  ///< of a list of stops or biases

/// What is wrong with a value, without a subject: the reader puts the field's name before it.
template <class... Args>
Error wrong(fmt::format_string<Args...> text, Args&&... args) {
  return Error{
      .code = ErrorCode::kInvalidArgument, .message = pagoda::format(text, std::forward<Args>(args)...), .param = {}};
}

Error wrong_kind(std::string_view wanted, const Json& json);

struct Kind {
  std::string schema;
  std::function<Status(const Json&, ApiRequest&)> read;
};

struct Range {
  double least = 0;
  double most = 0;
  bool open = false;  ///< without `least`
};

Kind number(Range range, std::function<void(double, ApiRequest&)> set);
Kind integer(std::int64_t least, std::int64_t most, std::function<void(std::int64_t, ApiRequest&)> set);
Kind boolean(std::function<void(bool, ApiRequest&)> set);
Kind text(std::function<void(const std::string&, ApiRequest&)> set);
/// Of at most so many characters.
Kind short_text(std::int64_t most, std::function<void(const std::string&, ApiRequest&)> set);
Kind one_of(std::vector<std::string> words, std::function<void(const std::string&, ApiRequest&)> set);

/// The schema of a token id, and what reads a list of them.
std::string id_schema(std::int64_t vocabulary);
Result<std::vector<std::int32_t>> read_ids(const Json& json, std::int64_t vocabulary);

Field required(std::string_view name, Kind kind, std::string description);
Field optional(std::string_view name, Kind kind, std::string description);
/// OpenAI's own description allows null here.
Field nullable(std::string_view name, Kind kind, std::string description);

}  // namespace pagoda::server
