#include "io/json_reader.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>

#include <charconv>
#include <unordered_set>
#include <vector>

#include "base/rapidjson_reader.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

/// Hands events on and holds the text to what its grammar leaves open: depth, keys, encoding of escapes.
class Strict : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Strict> {
 public:
  Strict(const JsonLimits& limits, JsonEvents& events) : limits_(limits), events_(events) {}

  bool Null() { return events_.null(), true; }
  bool Bool(bool flag) { return scalar({flag}); }
  /// Numbers come as they are written: an integer that fits is one, everything else a double.
  bool RawNumber(const char* digits, rapidjson::SizeType length, bool /*copy*/) {
    const char* end = digits + length;
    std::int64_t integer = 0;
    if (const auto read = std::from_chars(digits, end, integer); read.ptr == end && read.ec == std::errc()) {
      return scalar({integer});
    }
    std::uint64_t large = 0;
    if (const auto read = std::from_chars(digits, end, large); read.ptr == end && read.ec == std::errc()) {
      return scalar({large});
    }
    double real = 0;
    if (const auto read = std::from_chars(digits, end, real); read.ptr == end && read.ec == std::errc()) {
      return scalar({real});
    }
    return refuse(ErrorCode::kJsonSyntax, "a number is beyond what a double can hold");
  }
  bool String(const char* bytes, rapidjson::SizeType length, bool /*copy*/) {
    const std::string_view text(bytes, length);
    return is_utf8(text) ? scalar({std::string(text)}) : broken_escape();
  }
  bool Key(const char* bytes, rapidjson::SizeType length, bool /*copy*/) {
    const std::string_view name(bytes, length);
    if (!is_utf8(name)) return broken_escape();
    if (!keys_.back().emplace(name).second) {
      return refuse(ErrorCode::kJsonKeyDuplicate, pagoda::format("the key {} is there twice", quoted(name)));
    }
    if (keys_.back().size() > limits_.keys_of_an_object) {
      return refuse(ErrorCode::kJsonLimit,
                    pagoda::format("an object has more than {} keys", limits_.keys_of_an_object));
    }
    events_.key(name);
    return true;
  }
  bool StartObject() {
    keys_.emplace_back();
    return enter() && (events_.begin_object(), true);
  }
  bool EndObject(rapidjson::SizeType /*count*/) {
    keys_.pop_back();
    --depth_;
    events_.end_object();
    return true;
  }
  bool StartArray() { return enter() && (events_.begin_array(), true); }
  bool EndArray(rapidjson::SizeType /*count*/) {
    --depth_;
    events_.end_array();
    return true;
  }

  ErrorCode code() const { return code_; }
  const std::string& sentence() const { return sentence_; }

 private:
  bool scalar(Value value) {
    events_.scalar(std::move(value));
    return true;
  }
  bool enter() {
    if (++depth_ <= limits_.depth) return true;
    return refuse(ErrorCode::kJsonDepth,
                  pagoda::format("it is nested deeper than the {} levels allowed", limits_.depth));
  }
  bool broken_escape() { return refuse(ErrorCode::kJsonEncoding, "an escape names half of a character"); }
  bool refuse(ErrorCode code, std::string sentence) {
    code_ = code;
    sentence_ = std::move(sentence);
    return false;
  }

  const JsonLimits& limits_;
  JsonEvents& events_;
  int depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open object
  ErrorCode code_ = ErrorCode::kJsonSyntax;
  std::string sentence_;
};

}  // namespace

Status read_json(std::string_view text, std::string_view source, std::string_view part, const JsonLimits& limits,
                 JsonEvents& events) {
  const auto refuse = [&](ErrorCode code, std::size_t offset, std::string_view sentence) {
    return fail(code, "{}: {} at offset {}: {}", source, part, offset, sentence);
  };
  if (!is_utf8(text)) return fail(ErrorCode::kJsonEncoding, "{}: {} is not valid UTF-8", source, part);
  // The reader takes a zero byte for the end.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return refuse(ErrorCode::kJsonSyntax, zero, "it holds a zero byte");
  }
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
  rapidjson::MemoryStream stream(text.data(), text.size());
  JsonReader reader;
  Strict strict(limits, events);
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, strict);
  if (!result.IsError()) return Ok{};
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return refuse(strict.code(), result.Offset(), strict.sentence());
  }
  return refuse(ErrorCode::kJsonSyntax, result.Offset(),
                pagoda::format("it is no JSON: {}", rapidjson::GetParseError_En(result.Code())));
}

}  // namespace pagoda::io
