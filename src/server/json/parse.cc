#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>

#include <algorithm>

#include "base/rapidjson_reader.h"
#include "server/json/json.h"

namespace pagoda::server {
namespace {

/// Whether an escape has put half of a surrogate pair into a text: RapidJSON checks the bytes that stand there, and of
/// escapes only first halves.
bool has_lone_surrogate(std::string_view text) {
  for (std::size_t at = 0; (at = text.find('\xED', at)) != std::string_view::npos; ++at) {
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xA0) return true;
  }
  return false;
}

/// Builds the value at the reader's events, and knows which top-level member it is in.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  using Kind = Json::Kind;
  using Size = rapidjson::SizeType;

  explicit Builder(int depth) : most_depth_(static_cast<std::size_t>(depth)) {}

  bool Null() { return add({.kind = Kind::kNull}); }
  bool Bool(bool yes) { return add({.kind = yes ? Kind::kTrue : Kind::kFalse}); }
  bool RawNumber(const char* digits, Size length, bool /*copy*/) {
    return add({.kind = Kind::kNumber, .text = std::string(digits, length)});
  }
  bool String(const char* bytes, Size length, bool /*copy*/) {
    if (has_lone_surrogate({bytes, length})) return refuse(kHalfPair);
    return add({.kind = Kind::kString, .text = std::string(bytes, length)});
  }
  bool Key(const char* bytes, Size length, bool /*copy*/) {
    const std::string_view key(bytes, length);
    if (has_lone_surrogate(key)) return refuse(kHalfPair);
    note_field(key);
    open_.back()->members.emplace_back(key, Json{});
    return true;
  }
  bool StartObject() { return open(Kind::kObject); }
  bool StartArray() { return open(Kind::kArray); }
  bool EndObject(Size) {
    std::vector<std::string_view> keys;
    for (const Json::Member& member : open_.back()->members) keys.push_back(member.first);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice == keys.end()) return close();
    note_field(*twice);
    return refuse("a key stands twice in an object");
  }
  bool EndArray(Size) { return close(); }

  Json take() { return std::move(root_); }
  const std::string& field() const { return field_; }
  const char* refusal() const { return refusal_; }

 private:
  static constexpr const char* kHalfPair = "an escape is half of a surrogate pair";

  /// For a refusal.
  void note_field(std::string_view key) {
    if (open_.size() == 1) field_ = key.size() <= kMostNamedBytes ? key : "";
  }
  bool refuse(const char* why) {
    refusal_ = why;
    return false;
  }
  Json* place(Json json) {
    if (open_.empty()) {
      root_ = std::move(json);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.items.emplace_back(std::move(json));
    parent.members.back().second = std::move(json);
    return &parent.members.back().second;
  }
  bool add(Json json) {
    if (!counts_one()) return false;
    place(std::move(json));
    if (open_.size() == 1) field_.clear();
    return true;
  }
  bool counts_one() { return ++num_values_ <= kMostValues || refuse("it has too many values"); }
  bool open(Kind kind) {
    if (!counts_one()) return false;
    if (open_.size() >= most_depth_) return refuse("it is nested too deep");
    // A value's place is final while it is open: only its own parent grows, and that after it was closed.
    open_.push_back(place({.kind = kind}));
    return true;
  }
  bool close() {
    open_.pop_back();
    if (open_.size() == 1) field_.clear();
    return true;
  }

  /// A value takes a hundred bytes or so, and its text may be two: a bound on bytes is none on memory.
  static constexpr std::size_t kMostValues = std::size_t{1} << 21;

  std::size_t most_depth_;
  std::size_t num_values_ = 0;
  Json root_;
  std::vector<Json*> open_;
  std::string field_;
  const char* refusal_ = nullptr;
};

/// RapidJSON's sentence with the first letter small and no full stop, to stand inside one of ours.
std::string reason(const rapidjson::ParseResult& result, const Builder& builder) {
  if (builder.refusal() != nullptr) return builder.refusal();
  std::string text = rapidjson::GetParseError_En(result.Code());
  if (text.ends_with('.')) text.pop_back();
  if (!text.empty()) text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  return text;
}

}  // namespace

Result<Json> parse_json(std::string_view text, int depth) {
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag;
  Builder builder(depth);
  rapidjson::MemoryStream stream(text.data(), text.size());
  JsonReader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (!result.IsError()) {
    // A zero byte would end the text for the reader.
    if (stream.Tell() < text.size()) {
      return fail(ErrorCode::kInvalidArgument, "the body is not valid JSON: a zero byte at {}", stream.Tell());
    }
    return builder.take();
  }
  const std::string where = builder.field().empty() ? std::string("the body") : quoted(builder.field());
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = pagoda::format("{} is not valid JSON: {} (at byte {})", where, reason(result, builder),
                                         result.Offset()),
               .param = builder.field()};
}

}  // namespace pagoda::server
