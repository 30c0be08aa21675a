#include "io/raw_config.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

constexpr std::string_view kTypeNames[] = {"bools",    "integers", "integers", "integers", "integers", "integers",
                                           "integers", "integers", "integers", "numbers",  "numbers"};

// What a value is, and which.
std::string described(const Value& value) {
  if (const auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (const auto* integer = value.get_if<std::int64_t>()) return pagoda::format("{}", *integer);
  if (const auto* large = value.get_if<std::uint64_t>()) return pagoda::format("{}", *large);
  if (const auto* number = value.get_if<double>()) return pagoda::format("{}", *number);
  if (const auto* text = value.get_if<std::string>()) return "the string " + quoted(*text);
  return value.kind();
}

}  // namespace

void StringList::reserve(std::size_t strings, std::size_t bytes) {
  ends_.reserve(strings);
  bytes_.reserve(bytes);
}

void StringList::push_back(std::string_view text) {
  bytes_ += text;
  ends_.push_back(bytes_.size());
}

char* StringList::append(std::size_t bytes) {
  const std::size_t begin = bytes_.size();
  bytes_.resize(begin + bytes);
  ends_.push_back(bytes_.size());
  return bytes_.data() + begin;
}

std::size_t NumberList::width_of(Type type) {
  constexpr std::size_t widths[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return widths[static_cast<std::uint8_t>(type)];
}

NumberList::NumberList(Type type, std::vector<std::byte> bytes)
    : type_(type), size_(bytes.size() / width_of(type)), bytes_(std::move(bytes)) {
  PAGODA_CHECK(size_ * width_of(type) == bytes_.size(), "{} bytes of {} each", bytes_.size(), width_of(type));
}

template <class T>
T NumberList::at(std::size_t index) const {
  PAGODA_CHECK(index < size_, "index {} of {}", index, size_);
  T value;
  std::memcpy(&value, bytes_.data() + index * sizeof value, sizeof value);
  return value;
}

std::optional<std::int64_t> NumberList::integer(std::size_t index) const {
  switch (type_) {
    case Type::kBool:
    case Type::kU8:
      return at<std::uint8_t>(index);
    case Type::kI8:
      return at<std::int8_t>(index);
    case Type::kI16:
      return at<std::int16_t>(index);
    case Type::kU16:
      return at<std::uint16_t>(index);
    case Type::kI32:
      return at<std::int32_t>(index);
    case Type::kU32:
      return at<std::uint32_t>(index);
    case Type::kI64:
      return at<std::int64_t>(index);
    case Type::kU64:
      return checked_cast<std::int64_t>(at<std::uint64_t>(index));
    case Type::kF32:
    case Type::kF64:
      break;
  }
  return std::nullopt;
}

double NumberList::number(std::size_t index) const {
  if (type_ == Type::kF32) return static_cast<double>(at<float>(index));
  if (type_ == Type::kF64) return at<double>(index);
  if (type_ == Type::kU64) return static_cast<double>(at<std::uint64_t>(index));
  return static_cast<double>(*integer(index));
}

std::string Value::kind() const {
  constexpr std::string_view names[] = {"a bool", "an integer", "an integer", "a number", "a string"};
  if (const auto* list = get_if<NumberList>()) {
    return pagoda::format("a list of {} {}", list->size(), kTypeNames[static_cast<std::uint8_t>(list->type())]);
  }
  if (const auto* list = get_if<StringList>()) return pagoda::format("a list of {} strings", list->size());
  if (const auto* list = get_if<List>()) return pagoda::format("a list of {} values", list->size());
  return std::string(names[data.index()]);
}

bool RawConfig::insert(std::string key, Value value) {
  return entries_.try_emplace(std::move(key), Entry{.value = std::move(value)}).second;
}

const Value* RawConfig::find(std::string_view key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second.read = true;
  return &found->second.value;
}

void RawConfig::mark_tree_read(std::string_view key) const {
  mark_read(key);
  const std::string prefix = std::string(key) + ".";
  for (auto at = entries_.lower_bound(prefix); at != entries_.end() && at->first.starts_with(prefix); ++at) {
    at->second.read = true;
  }
}

bool RawConfig::contains_prefix(std::string_view prefix) const {
  const auto at = entries_.lower_bound(prefix);
  return at != entries_.end() && at->first.starts_with(prefix);
}

std::vector<std::string> RawConfig::unread_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_) {
    if (!entry.read) keys.push_back(key);
  }
  return keys;
}

std::vector<std::string_view> RawConfig::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) keys.emplace_back(key);
  return keys;
}

bool RawConfig::has(std::string_view key) const {
  return contains(key) || empty_objects_.find(key) != empty_objects_.end();
}

Result<const Value*> RawConfig::require(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr && has(key)) {
    return fail(ErrorCode::kConfigType, "{}: key {} is an empty object, not a value", source_, quoted(key));
  }
  if (value == nullptr) return fail(ErrorCode::kConfigMissing, "{}: key {} is missing", source_, quoted(key));
  return value;
}

Error RawConfig::wrong_type(std::string_view key, const Value& value, std::string_view wanted) const {
  return fail(ErrorCode::kConfigType, "{}: key {} is {}, not {}", source_, quoted(key), value.kind(), wanted);
}

Result<bool> RawConfig::boolean(std::string_view key) const {
  const Value& value = *PAGODA_TRY(require(key));
  if (const auto* flag = value.get_if<bool>()) return *flag;
  return wrong_type(key, value, "a bool");
}

Result<bool> RawConfig::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : Result<bool>(fallback);
}

Result<std::int64_t> RawConfig::integer(std::string_view key, std::int64_t least, std::int64_t most) const {
  const Value& value = *PAGODA_TRY(require(key));
  const auto* integer = value.get_if<std::int64_t>();
  if (integer == nullptr && value.get_if<std::uint64_t>() == nullptr) return wrong_type(key, value, "an integer");
  if (integer == nullptr || *integer < least || *integer > most) {
    return fail(ErrorCode::kConfigRange, "{}: key {} is {}; allowed are {} to {}", source_, quoted(key),
                described(value), least, most);
  }
  return *integer;
}

Result<std::int64_t> RawConfig::integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                                           std::int64_t most) const {
  return has(key) ? integer(key, least, most) : Result<std::int64_t>(fallback);
}

Result<double> RawConfig::number(std::string_view key, double least, double most) const {
  const Value& value = *PAGODA_TRY(require(key));
  double number = 0;
  if (const auto* real = value.get_if<double>()) {
    number = *real;
  } else if (const auto* integer = value.get_if<std::int64_t>()) {
    number = static_cast<double>(*integer);
  } else if (const auto* large = value.get_if<std::uint64_t>()) {
    number = static_cast<double>(*large);
  } else {
    return wrong_type(key, value, "a number");
  }
  if (!std::isfinite(number) || number < least || number > most) {
    return fail(ErrorCode::kConfigRange, "{}: key {} is {}; allowed are {} to {}", source_, quoted(key), number, least,
                most);
  }
  return number;
}

Result<double> RawConfig::number_or(std::string_view key, double fallback, double least, double most) const {
  return has(key) ? number(key, least, most) : Result<double>(fallback);
}

Result<std::string_view> RawConfig::text(std::string_view key) const {
  const Value& value = *PAGODA_TRY(require(key));
  if (const auto* text = value.get_if<std::string>()) return std::string_view(*text);
  return wrong_type(key, value, "a string");
}

Result<std::string_view> RawConfig::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : Result<std::string_view>(fallback);
}

Result<const StringList*> RawConfig::texts(std::string_view key) const {
  const Value& value = *PAGODA_TRY(require(key));
  if (const auto* list = value.get_if<StringList>()) return list;
  return wrong_type(key, value, "a list of strings");
}

Result<std::vector<std::int64_t>> RawConfig::integers(std::string_view key, std::int64_t least,
                                                      std::int64_t most) const {
  const Value& value = *PAGODA_TRY(require(key));
  const auto* list = value.get_if<NumberList>();
  if (list == nullptr || !list->is_integer()) return wrong_type(key, value, "a list of integers");
  std::vector<std::int64_t> integers(list->size());
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const auto integer = list->integer(i);
    if (!integer || *integer < least || *integer > most) {
      return fail(ErrorCode::kConfigRange, "{}: key {} holds {} at index {}; allowed are {} to {}", source_,
                  quoted(key), list->number(i), i, least, most);
    }
    integers[i] = *integer;
  }
  return integers;
}

Result<std::vector<double>> RawConfig::numbers(std::string_view key, double least, double most) const {
  const Value& value = *PAGODA_TRY(require(key));
  const auto* list = value.get_if<NumberList>();
  if (list == nullptr || list->is_bool()) return wrong_type(key, value, "a list of numbers");
  std::vector<double> numbers(list->size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = list->number(i);
    if (!std::isfinite(numbers[i]) || numbers[i] < least || numbers[i] > most) {
      return fail(ErrorCode::kConfigRange, "{}: key {} holds {} at index {}; allowed are {} to {}", source_,
                  quoted(key), numbers[i], i, least, most);
    }
  }
  return numbers;
}

Result<std::vector<bool>> RawConfig::booleans(std::string_view key) const {
  const Value& value = *PAGODA_TRY(require(key));
  const auto* list = value.get_if<NumberList>();
  if (list == nullptr || !list->is_bool()) return wrong_type(key, value, "a list of bools");
  std::vector<bool> flags(list->size());
  for (std::size_t i = 0; i < flags.size(); ++i) flags[i] = list->integer(i) == 1;
  return flags;
}

Result<std::vector<std::int64_t>> RawConfig::integers_each(std::string_view key, std::size_t count, std::int64_t least,
                                                           std::int64_t most) const {
  const Value* value = find(key);
  if (value == nullptr || value->get_if<NumberList>() == nullptr) {
    return std::vector<std::int64_t>(count, PAGODA_TRY(integer(key, least, most)));
  }
  auto integers = PAGODA_TRY(this->integers(key, least, most));
  if (integers.size() != count) {
    return fail(ErrorCode::kConfigRange, "{}: key {} holds {} integers, not one for all or {}", source_, quoted(key),
                integers.size(), count);
  }
  return integers;
}

}  // namespace pagoda::io
