#include "text/json_tree.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/rapidjson_reader.h"
#include "base/result.h"
#include "base/utf8.h"

namespace pagoda::text {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 28;

}  // namespace

/// Appends nodes at the reader's events.
class JsonTreeBuilder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonTreeBuilder> {
 public:
  using Kind = JsonValue::Kind;

  bool Null() { return add(Kind::kNull); }
  bool Bool(bool b) { return add(b ? Kind::kTrue : Kind::kFalse); }
  bool Int(int i) { return add_number(i); }
  bool Uint(unsigned i) { return add_number(i); }
  bool Int64(std::int64_t i) { return add_number(static_cast<double>(i)); }
  bool Uint64(std::uint64_t i) { return add_number(static_cast<double>(i)); }
  bool Double(double d) { return add_number(d); }
  /// RapidJSON's own conversion shifts a zero with a large exponent by more bits than there are.
  bool RawNumber(const char* digits, rapidjson::SizeType length, bool /*copy*/) {
    double number = 0;
    const auto [end, error] = std::from_chars(digits, digits + length, number);
    if (error == std::errc() && end == digits + length) return add_number(number);
    const bool tiny = std::string_view(digits, length).find_first_of("-", 1) != std::string_view::npos;
    too_large = !tiny;
    return tiny && add_number(0);
  }
  bool String(const char* bytes, rapidjson::SizeType length, bool /*copy*/) {
    if (!is_whole({bytes, length})) return false;
    const auto begin = static_cast<std::uint32_t>(tree.texts_.size());
    tree.texts_.append(bytes, length);
    return add(Kind::kString, begin, length);
  }
  bool Key(const char* bytes, rapidjson::SizeType length, bool /*copy*/) {
    if (!is_whole({bytes, length})) return false;
    key_begin_ = static_cast<std::uint32_t>(tree.texts_.size());
    key_size_ = length;
    tree.texts_.append(bytes, length);
    return true;
  }
  bool StartObject() { return open(Kind::kObject); }
  bool StartArray() { return open(Kind::kArray); }
  bool EndObject(rapidjson::SizeType count) { return close(count); }
  bool EndArray(rapidjson::SizeType count) { return close(count); }

  JsonTree tree;
  bool too_large = false;  ///< a number was beyond what a double can hold
  bool half_pair = false;  ///< an escape was half of a surrogate pair

 private:
  /// RapidJSON checks the bytes that stand in a text, and of escapes only the first halves of pairs.
  bool is_whole(std::string_view text) {
    half_pair = text.find('\xED') != std::string_view::npos && !is_utf8(text);
    return !half_pair;
  }
  bool add_number(double number) {
    const auto begin = static_cast<std::uint32_t>(tree.numbers_.size());
    tree.numbers_.push_back(number);
    return add(Kind::kNumber, begin);
  }
  bool add(Kind kind, std::uint32_t begin = 0, std::uint32_t size = 0) {
    JsonTree::Node node;
    node.after = static_cast<std::uint32_t>(tree.nodes_.size()) + 1;
    node.key_begin = key_begin_;
    node.key_size = key_size_ & 0x1FFFFFFFu;
    node.kind = static_cast<std::uint32_t>(kind) & 7u;
    node.begin = begin;
    node.size = size;
    tree.nodes_.push_back(node);
    key_size_ = 0;
    return true;
  }
  bool open(Kind kind) {
    if (open_.size() >= kMaxDepth) return false;
    open_.push_back(static_cast<std::uint32_t>(tree.nodes_.size()));
    return add(kind);
  }
  bool close(std::uint32_t count) {
    JsonTree::Node& node = tree.nodes_[open_.back()];
    node.after = static_cast<std::uint32_t>(tree.nodes_.size());
    node.size = count;
    open_.pop_back();
    fold_pair(node);
    return true;
  }
  /// The last node, if it is a pair of strings, takes its strings' places in.
  void fold_pair(JsonTree::Node& node) {
    const auto is = [](const JsonTree::Node& n, Kind kind) { return n.kind == static_cast<std::uint32_t>(kind); };
    if (!is(node, Kind::kArray) || node.size != 2 || node.key_size != 0 ||
        &node + 3 != tree.nodes_.data() + tree.nodes_.size())
      return;
    const JsonTree::Node& first = *(&node + 1);
    const JsonTree::Node& second = *(&node + 2);
    if (!is(first, Kind::kString) || !is(second, Kind::kString)) return;
    node.kind = JsonTree::kPair;
    node.begin = first.begin;
    node.size = first.size;
    node.key_size = second.size & 0x1FFFFFFFu;
    tree.nodes_.resize(tree.nodes_.size() - 2);
    node.after = static_cast<std::uint32_t>(tree.nodes_.size());
  }

  std::vector<std::uint32_t> open_;
  std::uint32_t key_begin_ = 0;
  std::uint32_t key_size_ = 0;
};

Result<JsonTree> JsonTree::parse(std::string_view json, std::string_view name) {
  if (json.size() > kMaxJsonBytes) {
    return fail(ErrorCode::kJsonLimit, "{} has {} bytes; at most {} are allowed", name, json.size(), kMaxJsonBytes);
  }
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag;
  JsonTreeBuilder builder;
  // As many as there can be: what is not used is never touched, and nothing is copied while the tree grows.
  const auto begins_value = [](char c) { return c == ',' || c == '[' || c == '{'; };
  builder.tree.nodes_.reserve(static_cast<std::size_t>(std::ranges::count_if(json, begins_value)) + 1);
  builder.tree.texts_.reserve(json.size());
  rapidjson::MemoryStream stream(json.data(), json.size());
  JsonReader reader;
  const auto status = reader.Parse<kFlags>(stream, builder);
  if (builder.too_large) {
    return fail(ErrorCode::kJsonSyntax, "{}: a number before byte {} is beyond what a double can hold", name,
                status.Offset());
  }
  if (builder.half_pair) {
    return fail(ErrorCode::kJsonEncoding, "{}: not JSON at byte {}: an escape is half of a surrogate pair", name,
                status.Offset());
  }
  if (status.Code() == rapidjson::kParseErrorTermination) {
    return fail(ErrorCode::kJsonDepth, "{}: nesting deeper than {} at byte {}", name, kMaxDepth, status.Offset());
  }
  if (status.IsError()) {
    const bool encoding = status.Code() == rapidjson::kParseErrorStringInvalidEncoding ||
                          status.Code() == rapidjson::kParseErrorStringUnicodeSurrogateInvalid;
    return fail(encoding ? ErrorCode::kJsonEncoding : ErrorCode::kJsonSyntax, "{}: not JSON at byte {}: {}", name,
                status.Offset(), rapidjson::GetParseError_En(status.Code()));
  }
  return std::move(builder.tree);
}

JsonValue::Kind JsonValue::kind() const {
  if (part_ > 0) return Kind::kString;
  return tree_->is_pair(at_) ? Kind::kArray : static_cast<Kind>(tree_->nodes_[at_].kind);
}

std::string_view JsonValue::key() const {
  if (tree_->is_pair(at_)) return {};
  const JsonTree::Node& node = tree_->nodes_[at_];
  return std::string_view(tree_->texts_).substr(node.key_begin, node.key_size);
}

std::string_view JsonValue::string() const {
  const JsonTree::Node& node = tree_->nodes_[at_];
  const std::string_view texts = tree_->texts_;
  return part_ == 2 ? texts.substr(node.begin + node.size, node.key_size) : texts.substr(node.begin, node.size);
}

double JsonValue::number() const { return tree_->numbers_[tree_->nodes_[at_].begin]; }

std::optional<std::int64_t> JsonValue::integer() const {
  constexpr double kMost = 9007199254740992.0;
  if (kind() != Kind::kNumber || !(std::fabs(number()) <= kMost) || std::trunc(number()) != number()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number());
}

std::uint32_t JsonValue::count() const { return tree_->is_pair(at_) ? 2 : tree_->nodes_[at_].size; }

JsonValue::Iterator JsonValue::begin() const {
  return Iterator(tree_->is_pair(at_) ? JsonValue(tree_, at_, 1) : JsonValue(tree_, at_ + 1));
}
JsonValue::Iterator JsonValue::end() const { return Iterator({tree_, tree_->nodes_[at_].after}); }

JsonValue::Iterator& JsonValue::Iterator::operator++() {
  if (value_.part_ == 1) {
    value_.part_ = 2;
  } else {
    value_ = JsonValue(value_.tree_, value_.tree_->nodes_[value_.at_].after);
  }
  return *this;
}

std::string_view name_of(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kFalse:
    case JsonValue::Kind::kTrue:
      return "a boolean";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "a list";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "a value";
}

}  // namespace pagoda::text
