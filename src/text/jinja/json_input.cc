#include "text/jinja/json_input.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>

#include <string>
#include <vector>

#include "base/rapidjson_reader.h"
#include "base/utf8.h"
#include "text/jinja/unicode.h"

namespace pagoda::text::jinja {

namespace {

/// Builds values from the reader's events; containers under construction lie on a stack of our own.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  explicit Builder(Machine& machine) : machine_(machine) {}

  bool Null() { return put(Value::none()); }
  bool Bool(bool b) { return put(Value::boolean(b)); }
  bool Int(int i) { return put(Value::integer(i)); }
  bool Uint(unsigned i) { return put(Value::integer(i)); }
  bool Int64(std::int64_t i) { return put(Value::integer(i)); }
  bool Uint64(std::uint64_t i) {
    const auto narrow = static_cast<std::int64_t>(i);
    if (narrow < 0) return refuse("an integer beyond 64 bits");
    return put(Value::integer(narrow));
  }
  bool Double(double d) { return put(Value::real(d)); }
  bool RawNumber(const char* digits, rapidjson::SizeType length, bool /*copy*/) {
    const std::string text(digits, length);
    if (text.find_first_of(".eEnN") != std::string::npos) return put(Value::real(std::strtod(text.c_str(), nullptr)));
    errno = 0;
    const long long value = std::strtoll(text.c_str(), nullptr, 10);
    if (errno != 0) return refuse("an integer beyond 64 bits");
    return put(Value::integer(value));
  }
  bool String(const char* bytes, rapidjson::SizeType length, bool /*copy*/) {
    if (!is_utf8({bytes, length})) return refuse(kHalfPair);
    return put(machine_.untrusted({bytes, length}));
  }
  bool StartObject() {
    auto* dict = machine_.heap().make<Dict>();
    return open({.dict = dict, .key = {}, .items = {}});
  }
  bool Key(const char* bytes, rapidjson::SizeType length, bool /*copy*/) {
    if (!is_utf8({bytes, length})) return refuse(kHalfPair);
    stack_.back().key = machine_.untrusted({bytes, length});
    return true;
  }
  bool EndObject(rapidjson::SizeType /*count*/) {
    const Value made(Kind::kDict, stack_.back().dict);
    stack_.pop_back();
    return put(made);
  }
  bool StartArray() { return open({.dict = nullptr, .key = {}, .items = {}}); }
  bool EndArray(rapidjson::SizeType /*count*/) {
    const Value made = machine_.list(std::move(stack_.back().items));
    stack_.pop_back();
    return put(made);
  }

  Value result;
  std::string refusal;

 private:
  struct Open {
    Dict* dict;  ///< null: an array
    Value key;
    std::vector<Value> items;
  };

  /// RapidJSON checks the bytes that stand in a text, and of escapes only the first halves of pairs.
  static constexpr const char* kHalfPair = "half of a surrogate pair";

  bool refuse(std::string why) {
    refusal = std::move(why);
    return false;
  }
  bool open(Open container) {
    if (stack_.size() >= kMaxNesting - 2) return refuse(pagoda::format("nesting deeper than {}", kMaxNesting - 2));
    stack_.push_back(std::move(container));
    return true;
  }
  bool put(const Value& value) {
    machine_.heap().charge(2 * sizeof(Value));
    if (stack_.empty()) {
      result = value;
    } else if (stack_.back().dict != nullptr) {
      stack_.back().dict->set(stack_.back().key, value);
    } else {
      stack_.back().items.push_back(value);
    }
    return true;
  }

  Machine& machine_;
  std::vector<Open> stack_;
};

}  // namespace

Result<Value> read_json(Machine& machine, std::string_view json, const char* param) {
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag;
  Builder builder(machine);
  rapidjson::MemoryStream stream(json.data(), json.size());
  JsonReader reader;
  const auto status = reader.Parse<kFlags>(stream, builder);
  if (!builder.refusal.empty()) {
    return fail_param(ErrorCode::kInvalidArgument, param, "{}: {} at byte {} is not allowed", param, builder.refusal,
                      status.Offset());
  }
  if (status.IsError()) {
    return fail_param(ErrorCode::kInvalidArgument, param, "{}: not JSON at byte {}: {}", param, status.Offset(),
                      rapidjson::GetParseError_En(status.Code()));
  }
  return builder.result;
}

}  // namespace pagoda::text::jinja
