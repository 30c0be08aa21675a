// The values of a template: 16 bytes each, copied freely; what they point to belongs to the heap of one rendering
// (or to the parsed program) and is freed with it, all at once. Nothing is freed before, so cycles and deep nesting
// are harmless; the heap has a budget instead.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_range.h"
#include "text/jinja/fault.h"

namespace pagoda::text::jinja {

enum class Kind : std::uint8_t {
  kMissing,  ///< no value at all: an argument not given, a name not bound yet
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      ///< dict.keys(), .values(), .items()
  kIterator,  ///< generators and reversed(): may be walked once
  kNamespace,
  kFunction,
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
};

struct Object {
  virtual ~Object() = default;
};
struct Text;

class Value {
 public:
  Value() = default;
  Value(Kind kind, const Object* object) : kind_(kind) { data_.object = const_cast<Object*>(object); }

  static Value none() { return Value(Kind::kNone, nullptr); }
  static Value boolean(bool b) {
    Value value(Kind::kBool, nullptr);
    value.data_.integer = b ? 1 : 0;
    return value;
  }
  static Value integer(std::int64_t i) {
    Value value(Kind::kInt, nullptr);
    value.data_.integer = i;
    return value;
  }
  static Value real(double d) {
    Value value(Kind::kFloat, nullptr);
    value.data_.real = d;
    return value;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_int() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }  ///< as isinstance(x, int)
  bool is_number() const { return is_int() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  std::int64_t as_int() const { return data_.integer; }
  bool as_bool() const { return data_.integer != 0; }
  double as_real() const { return kind_ == Kind::kFloat ? data_.real : static_cast<double>(data_.integer); }
  template <class T>
  T& as() const {
    return *static_cast<T*>(data_.object);
  }
  Object* object() const { return data_.object; }
  const Text& text() const;
  const std::string& bytes() const;

 private:
  Kind kind_ = Kind::kMissing;
  union {
    std::int64_t integer;
    double real;
    Object* object;
  } data_ = {0};
};

/// A string with its provenance: which of its bytes the template's author wrote.
struct Text : Object {
  std::string bytes;
  std::vector<ByteRange> trusted;  ///< ascending, not touching; one range over all if wholly the author's
  std::size_t chars = 0;
  bool markup = false;  ///< jinja2's Markup: made by `safe` and `escape`, escapes what is added to it

  bool ascii() const { return chars == bytes.size(); }
};

inline const Text& Value::text() const { return as<Text>(); }
inline const std::string& Value::bytes() const { return text().bytes; }

struct Undefined : Object {
  std::string hint;
  Value owner;  ///< whose attribute or element was asked for; kMissing for a plain name
  Value name;
  bool unsafe = false;  ///< the sandbox refused the attribute
};

/// How deep a value nests and how many values it holds in all, counted as a walk would meet them. Known when it is
/// made, so that walks need no guard against depth and can be paid for in advance.
struct Extent {
  int height = 1;
  std::uint64_t weight = 1;

  /// Takes in one element; nesting over kMaxNesting is kTemplateLimit.
  void add(const Value& element);
};
inline constexpr int kMaxNesting = 200;

/// Lists and tuples.
struct Sequence : Object {
  std::vector<Value> items;
  Extent extent;
  bool group = false;  ///< a tuple of `groupby`: also has .grouper and .list
};

struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

struct Dict : Object {
  std::vector<std::pair<Value, Value>> items;
  Extent extent;

  /// The value of an equal key, or null. The key must be hashable.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, const Value& value);

 private:
  std::map<Value, std::size_t, KeyLess> index_;  ///< only for dicts of more than a few keys
};

struct Range : Object {
  std::int64_t start = 0, stop = 0, step = 1, length = 0;
  std::int64_t at(std::int64_t i) const { return start + i * step; }
};

struct View : Object {
  enum class Part : std::uint8_t { kKeys, kValues, kItems } part = Part::kKeys;
  const Dict* dict = nullptr;
};

struct Iterator : Object {
  std::string_view type_name = "generator";
  std::function<bool(Value& out)> next;  ///< false at the end
};

struct Namespace : Object {
  Dict dict;
};

struct Cycler : Object {
  std::vector<Value> items;
  std::size_t at = 0;
};

struct Joiner : Object {
  Value separator;
  bool used = false;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Machine;

/// One call of a builtin: `self` is the filtered value or the method's owner; `a` holds the parameters in the order
/// of `Builtin::parameters`, kMissing where not given.
struct Call {
  Machine& machine;
  Value self;
  Value a[7];
  const Arguments& given;
};

struct Builtin {
  std::string_view name;
  std::string_view parameters;  ///< names with spaces between; "*" takes everything as it comes (Call::given)
  int required = 0;             ///< how many of them must be given
  Value (*run)(Call& call) = nullptr;
};

struct Function : Object {
  const Builtin* builtin = nullptr;
  Value self;  ///< of a bound method
};

/// Owns what one rendering makes.
class Heap {
 public:
  explicit Heap(std::size_t budget_bytes) : left_(budget_bytes) {}

  template <class T>
  T* make() {
    charge(sizeof(T) + 16);
    auto owned = std::make_unique<T>();
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  void charge(std::size_t num_bytes) {
    if (num_bytes > left_) raise_limit("it needs more memory than a rendering may use");
    left_ -= num_bytes;
  }

 private:
  std::size_t left_;
  std::vector<std::unique_ptr<Object>> objects_;
};

/// How many values a walk through this one meets.
std::uint64_t weight_of(const Value& value);

/// As Python's type(x).__name__.
std::string_view type_name(const Value& value);

}  // namespace pagoda::text::jinja
