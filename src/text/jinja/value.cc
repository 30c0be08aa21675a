#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/operators.h"

namespace pagoda::text::jinja {

namespace {

constexpr std::uint64_t kMaxWeight = std::uint64_t{1} << 62;  // leaves room to count steps on
constexpr std::size_t kIndexFrom = 9;                         // below this many keys a plain search is as fast

/// Keys that compare equal share a rank: True, 1 and 1.0 are one key.
int key_rank(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return 0;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return 1;
    case Kind::kString:
      return 2;
    case Kind::kTuple:
      return 3;
    case Kind::kUndefined:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

bool KeyLess::operator()(const Value& a, const Value& b) const {
  const int rank = key_rank(a);
  if (rank != key_rank(b)) return rank < key_rank(b);
  switch (rank) {
    case 1:
      return static_cast<long double>(a.is_int() ? static_cast<long double>(a.as_int()) : a.as_real()) <
             static_cast<long double>(b.is_int() ? static_cast<long double>(b.as_int()) : b.as_real());
    case 2:
      return a.bytes() < b.bytes();
    case 3: {
      const auto& left = a.as<Sequence>().items;
      const auto& right = b.as<Sequence>().items;
      return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(), *this);
    }
    case 5:
      return std::less<>()(a.object(), b.object());
    default:
      return false;
  }
}

const Value* Dict::find(const Value& key) const {
  if (items.size() < kIndexFrom) {
    for (const auto& [name, value] : items) {
      if (equals(name, key)) return &value;
    }
    return nullptr;
  }
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::find(std::string_view key) const {
  if (items.size() < kIndexFrom) {
    for (const auto& [name, value] : items) {
      if (name.is(Kind::kString) && name.bytes() == key) return &value;
    }
    return nullptr;
  }
  Text text;
  text.bytes = key;
  return find(Value(Kind::kString, &text));
}

void Dict::set(const Value& key, const Value& value) {
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = value;
    extent.add(value);
    return;
  }
  items.emplace_back(key, value);
  extent.add(key);
  extent.add(value);
  if (items.size() < kIndexFrom) return;
  if (items.size() == kIndexFrom) {
    for (std::size_t i = 0; i < items.size(); ++i) index_.emplace(items[i].first, i);
  } else {
    index_.emplace(key, items.size() - 1);
  }
}

namespace {

Extent extent_of(const Value& value) {
  if (value.is_sequence()) return value.as<Sequence>().extent;
  if (value.is(Kind::kDict)) return value.as<Dict>().extent;
  if (value.is(Kind::kView)) return value.as<View>().dict->extent;
  return {.height = 0, .weight = 1};
}

}  // namespace

std::uint64_t weight_of(const Value& value) {
  return value.is(Kind::kString) ? 1 + value.bytes().size() / 64 : extent_of(value).weight;
}

void Extent::add(const Value& element) {
  const Extent other = extent_of(element);
  height = std::max(height, other.height + 1);
  if (height > kMaxNesting) raise_limit("its values nest deeper than {}", kMaxNesting);
  weight = std::min(weight + other.weight, kMaxWeight);  // neither is above, so the sum fits
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
      return "MissingType";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.text().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView: {
      const auto part = value.as<View>().part;
      return part == View::Part::kKeys ? "dict_keys" : part == View::Part::kValues ? "dict_values" : "dict_items";
    }
    case Kind::kIterator:
      return value.as<Iterator>().type_name;
    case Kind::kNamespace:
      return "TemplateNamespace";
    case Kind::kFunction:
      return value.as<Function>().self.is(Kind::kMissing) ? "function" : "builtin_function_or_method";
    case Kind::kMacro:
      return "Macro";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

}  // namespace pagoda::text::jinja
