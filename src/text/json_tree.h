// A JSON text as a tree that takes little room: 20 bytes a value beside the texts, and as many for a pair of strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"

namespace pagoda::text {

class JsonTree;

/// A value of a tree, which must outlive it.
class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

  Kind kind() const;
  bool is(Kind kind) const { return this->kind() == kind; }
  /// The name under which an object holds it; empty elsewhere.
  std::string_view key() const;
  std::string_view string() const;  ///< of kString
  double number() const;            ///< of kNumber
  /// A number that is a whole one within ± 2^53; absent for all else.
  std::optional<std::int64_t> integer() const;
  std::uint32_t count() const;  ///< of kArray and kObject: the values in it

  /// The values in an array or object, in order.
  class Iterator;
  Iterator begin() const;
  Iterator end() const;

 private:
  friend class JsonTree;
  JsonValue(const JsonTree* tree, std::uint32_t at, std::uint32_t part = 0) : tree_(tree), at_(at), part_(part) {}

  const JsonTree* tree_;
  std::uint32_t at_;
  std::uint32_t part_ = 0;  ///< 1 and 2: the strings of a pair
};

class JsonValue::Iterator {
 public:
  explicit Iterator(JsonValue value) : value_(value) {}
  const JsonValue& operator*() const { return value_; }
  Iterator& operator++();
  bool operator!=(const Iterator& other) const {
    return value_.at_ != other.value_.at_ || value_.part_ != other.value_.part_;
  }

 private:
  JsonValue value_;
};

/// What a kind of value is called in a message.
std::string_view name_of(JsonValue::Kind kind);

class JsonTree {
 public:
  /// Errors: kJsonSyntax (RFC 8259), kJsonEncoding for what is no UTF-8, kJsonDepth for nesting deeper than 64,
  /// kJsonLimit for more than 256 MiB. `name` begins the message.
  static Result<JsonTree> parse(std::string_view json, std::string_view name);

  JsonValue root() const { return {this, 0}; }

 private:
  friend class JsonValue;
  friend class JsonTreeBuilder;
  struct Node {
    std::uint32_t after = 0;  ///< the node behind this one and all in it
    std::uint32_t key_begin = 0;
    std::uint32_t key_size : 29 = 0;  ///< of a pair, which has no key: the size of its second string
    std::uint32_t kind : 3 = 0;       ///< JsonValue::Kind, or kPair
    std::uint32_t begin = 0;          ///< of a string in texts_, or of a number in numbers_
    std::uint32_t size = 0;           ///< of a string (of a pair the first), or the values in an array or object
  };

  static constexpr std::uint32_t kPair = 7;  ///< an array of two strings, without a key
  bool is_pair(std::uint32_t at) const { return nodes_[at].kind == kPair; }

  std::vector<Node> nodes_;
  std::vector<double> numbers_;
  std::string texts_;
};

}  // namespace pagoda::text
