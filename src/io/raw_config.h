// A model's configuration as its file states it: keys and typed values that nobody has interpreted yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace pagoda::io {

/// Many strings in one allocation: a vocabulary has 262,144 of them.
class StringList {
 public:
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t index) const {
    const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return {bytes_.data() + begin, ends_[index] - begin};
  }

  void reserve(std::size_t strings, std::size_t bytes);
  void push_back(std::string_view text);
  /// Adds a string of `bytes` and returns where its bytes are to be written; valid until the next change.
  char* append(std::size_t bytes);

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
};

/// Many numbers of one type, kept as narrow as the file has them.
class NumberList {
 public:
  enum class Type : std::uint8_t { kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF32, kF64 };

  NumberList() = default;
  /// `bytes` holds `bytes.size() / width_of(type)` values in the machine's byte order.
  NumberList(Type type, std::vector<std::byte> bytes);

  static std::size_t width_of(Type type);
  Type type() const { return type_; }
  std::size_t size() const { return size_; }
  bool is_bool() const { return type_ == Type::kBool; }
  bool is_integer() const { return type_ > Type::kBool && type_ < Type::kF32; }
  bool is_real() const { return type_ >= Type::kF32; }

  /// The value as an integer; none if it is a real number or beyond 64 signed bits. A bool is 0 or 1.
  std::optional<std::int64_t> integer(std::size_t index) const;
  double number(std::size_t index) const;

 private:
  template <class T>
  T at(std::size_t index) const;

  Type type_ = Type::kI64;
  std::size_t size_ = 0;
  std::vector<std::byte> bytes_;
};

/// One value of a configuration. Integers are std::int64_t; std::uint64_t is used only for those beyond its range.
struct Value {
  using List = std::vector<Value>;  ///< a list of lists, or a JSON array of mixed types
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string, NumberList, StringList, List> data;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data);
  }
  /// What it is, in words for error messages: "an integer", "a list of 12 strings".
  std::string kind() const;
};

/// Keys and values of one model, and which keys have been read: the model rung refuses what nobody reads.
/// Every typed reader returns kConfigMissing, kConfigType or kConfigRange with a sentence that names the file, the key,
/// what was found and what is allowed. What it lends lives as long as the RawConfig. Reading marks keys and is for one
/// thread at a time.
class RawConfig {
 public:
  RawConfig() = default;
  /// `source` names the file in messages.
  explicit RawConfig(std::string source) : source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  std::size_t size() const { return entries_.size(); }

  /// False, and nothing changes, if the key is there already.
  bool insert(std::string key, Value value);

  /// A key that the file has with JSON's null: as good as not there, but known to be meant so.
  void insert_null(std::string key) { nulls_.insert(std::move(key)); }
  bool is_null(std::string_view key) const { return nulls_.find(key) != nulls_.end(); }

  /// A key that the file has with an object that holds nothing: no value, but no reason for a fallback either.
  void insert_empty_object(std::string key) { empty_objects_.insert(std::move(key)); }

  /// Whether the key is there; does not count as reading it.
  bool contains(std::string_view key) const { return entries_.find(key) != entries_.end(); }
  /// The value, or null. Counts as reading the key.
  const Value* find(std::string_view key) const;
  /// Counts a key as read that has no influence on the result.
  void mark_read(std::string_view key) const { (void)find(key); }
  /// The same for a JSON object or list under that key, with all that is in it.
  void mark_tree_read(std::string_view key) const;
  /// Whether a key begins with these bytes.
  bool contains_prefix(std::string_view prefix) const;
  /// Keys that nobody has read, sorted.
  std::vector<std::string> unread_keys() const;
  /// All keys, sorted; does not count as reading them.
  std::vector<std::string_view> keys() const;

  Result<bool> boolean(std::string_view key) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  /// An integer in [least, most].
  Result<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  Result<std::int64_t> integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                                  std::int64_t most) const;
  /// A finite number (also written as an integer) in [least, most].
  Result<double> number(std::string_view key, double least, double most) const;
  Result<double> number_or(std::string_view key, double fallback, double least, double most) const;
  Result<std::string_view> text(std::string_view key) const;
  Result<std::string_view> text_or(std::string_view key, std::string_view fallback) const;

  Result<const StringList*> texts(std::string_view key) const;
  Result<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t least, std::int64_t most) const;
  Result<std::vector<double>> numbers(std::string_view key, double least, double most) const;
  Result<std::vector<bool>> booleans(std::string_view key) const;
  /// `count` integers: from a list of just that many, or one integer that holds for all (GGUF writes both for layers).
  Result<std::vector<std::int64_t>> integers_each(std::string_view key, std::size_t count, std::int64_t least,
                                                  std::int64_t most) const;

 private:
  struct Entry {
    Value value;
    mutable bool read = false;
  };

  /// Whether the key's value has a say, be it a wrong one.
  bool has(std::string_view key) const;
  Result<const Value*> require(std::string_view key) const;
  Error wrong_type(std::string_view key, const Value& value, std::string_view wanted) const;

  std::string source_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::set<std::string, std::less<>> nulls_, empty_objects_;
};

}  // namespace pagoda::io
