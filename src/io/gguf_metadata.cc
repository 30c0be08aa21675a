#include "io/gguf_metadata.h"

#include <algorithm>

#include "io/gguf.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

enum Type : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kNumTypes
};

class MetadataReader {
 public:
  explicit MetadataReader(GgufCursor& cursor) : cursor_(cursor) {}

  Result<std::string> key() {
    cursor_.set_part("the name of a key");
    std::string key = PAGODA_TRY(cursor_.string(ErrorCode::kGgufKeyName, "the name", GgufLimits::kMaxKeyBytes));
    if (key.empty()) return cursor_.fail_here(ErrorCode::kGgufKeyName, "the name is empty");
    cursor_.set_part("key " + quoted(key));
    if (!is_utf8(key)) return cursor_.fail_here(ErrorCode::kGgufStringEncoding, "the name is not valid UTF-8");
    if (has_control_characters(key))
      return cursor_.fail_here(ErrorCode::kGgufKeyName, "the name has control characters");
    return key;
  }

  Result<Value> value() {
    const std::uint32_t type = PAGODA_TRY(this->type());
    if (type == kArray) return array(1);
    if (type == kString) {
      std::string text =
          PAGODA_TRY(cursor_.string(ErrorCode::kGgufStringLength, "the string", GgufLimits::kMaxHeaderBytes));
      if (!is_utf8(text)) return cursor_.fail_here(ErrorCode::kGgufStringEncoding, "the string is not valid UTF-8");
      return Value{std::move(text)};
    }
    return scalar(type);
  }

 private:
  Result<std::uint32_t> type() {
    const auto type = PAGODA_TRY(cursor_.number<std::uint32_t>());
    if (type < kNumTypes) return type;
    return cursor_.fail_here(ErrorCode::kGgufValueType, "{} is no value type; they are numbered 0 to {}", type,
                             kNumTypes - 1);
  }

  static NumberList::Type list_type(std::uint32_t type) {
    using T = NumberList::Type;
    constexpr T types[] = {T::kU8,   T::kI8,  T::kU16, T::kI16, T::kU32, T::kI32, T::kF32,
                           T::kBool, T::kI64, T::kI64, T::kU64, T::kI64, T::kF64};
    return types[type];
  }

  Result<Value> scalar(std::uint32_t type) {
    const NumberList one = PAGODA_TRY(numbers(type, 1));
    if (type == kBool) return Value{*one.integer(0) != 0};
    if (type == kF32 || type == kF64) return Value{one.number(0)};
    if (const auto integer = one.integer(0)) return Value{*integer};
    cursor_.rewind(cursor_.offset() - sizeof(std::uint64_t));
    return Value{PAGODA_TRY(cursor_.number<std::uint64_t>())};
  }

  Result<NumberList> numbers(std::uint32_t type, std::uint64_t count) {
    const NumberList::Type kind = list_type(type);
    std::vector<std::byte> bytes(count * NumberList::width_of(kind));
    PAGODA_TRY(cursor_.read(bytes));
    if (type == kBool) {
      const auto wrong = std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
      if (wrong != bytes.end()) {
        return cursor_.fail_here(ErrorCode::kGgufBoolValue, "a bool is {}; only 0 and 1 are allowed",
                                 std::to_integer<int>(*wrong));
      }
    }
    return NumberList(kind, std::move(bytes));
  }

  Result<Value> array(int depth) {
    constexpr auto kCode = ErrorCode::kGgufArrayLength;
    const std::uint32_t type = PAGODA_TRY(this->type());
    if (type == kArray) return lists(depth);
    if (type == kString) {
      const auto count = PAGODA_TRY(cursor_.count(kCode, "strings", 8, GgufLimits::kMaxHeaderBytes));
      return Value{PAGODA_TRY(strings(count))};
    }
    const std::uint64_t width = NumberList::width_of(list_type(type));
    const auto count = PAGODA_TRY(cursor_.count(kCode, "array elements", width, GgufLimits::kMaxHeaderBytes));
    return Value{PAGODA_TRY(numbers(type, count))};
  }

  Result<Value> lists(int depth) {
    constexpr int kMaxDepth = 2;
    constexpr std::uint64_t kLeastBytes = 12;  // a type and a count
    if (depth == kMaxDepth) {
      return cursor_.fail_here(ErrorCode::kGgufArrayNesting, "arrays are nested more than {} deep", kMaxDepth);
    }
    const auto count = PAGODA_TRY(
        cursor_.count(ErrorCode::kGgufArrayLength, "arrays", kLeastBytes, GgufLimits::kMaxLists - num_lists_));
    num_lists_ += count;
    Value::List lists;
    lists.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) lists.push_back(PAGODA_TRY(array(depth + 1)));
    return Value{std::move(lists)};
  }

  // Twice over the same bytes, so that a vocabulary is one allocation of just its size, made when all lengths are
  // known to be true. Elements are taken as bytes: pieces of a vocabulary need not be UTF-8.
  Result<StringList> strings(std::uint64_t count) {
    const std::uint64_t begin = cursor_.offset();
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto length = PAGODA_TRY(cursor_.number<std::uint64_t>());
      if (length > cursor_.left()) {
        return cursor_.fail_here(ErrorCode::kGgufStringLength, "string {} of an array claims {} bytes, but {} are left",
                                 i, length, cursor_.left());
      }
      cursor_.skip(length);
      bytes += length;
    }
    cursor_.rewind(begin);
    StringList list;
    list.reserve(count, bytes);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto length = PAGODA_TRY(cursor_.number<std::uint64_t>());
      // The file may have changed between the two passes.
      if (length > cursor_.left()) return cursor_.fail_here(ErrorCode::kFileChanged, "the file changed while read");
      PAGODA_TRY(cursor_.read(std::as_writable_bytes(std::span(list.append(length), length))));
    }
    return list;
  }

  GgufCursor& cursor_;
  std::uint64_t num_lists_ = 0;
};

}  // namespace

Result<std::vector<GgufKeyRange>> read_gguf_metadata(GgufCursor& cursor, std::uint64_t num_keys, RawConfig& config) {
  MetadataReader reader(cursor);
  std::vector<GgufKeyRange> ranges;
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    std::string key = PAGODA_TRY(reader.key());
    if (config.contains(key)) return cursor.fail_here(ErrorCode::kGgufKeyDuplicate, "the key is there twice");
    const std::uint64_t begin = cursor.offset();
    Value value = PAGODA_TRY(reader.value());
    ranges.push_back({.key = key, .begin = begin, .end = cursor.offset()});
    config.insert(std::move(key), std::move(value));
  }
  return ranges;
}

}  // namespace pagoda::io
