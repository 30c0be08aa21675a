#include "io/gguf_writer.h"

#include <cstring>

#include "base/check.h"
#include "base/checked.h"

namespace pagoda::io {
namespace {

// Numbers of value types, of which the file's description has more.
constexpr std::uint32_t kU32 = 4;
constexpr std::uint32_t kI32 = 5;
constexpr std::uint32_t kF32 = 6;
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& to, std::string_view text) {
  append(to, static_cast<std::uint64_t>(text.size()));
  to += text;
}

template <class T>
void append_array(std::string& to, std::uint32_t type, std::span<const T> values) {
  append(to, type);
  append(to, static_cast<std::uint64_t>(values.size()));
  to.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace

void GgufKeys::begin(std::string_view key, std::uint32_t type) {
  append_string(bytes_, key);
  append(bytes_, type);
  ++count_;
}

void GgufKeys::add(std::string_view key, std::uint32_t value) {
  begin(key, kU32);
  append(bytes_, value);
}

void GgufKeys::add(std::string_view key, float value) {
  begin(key, kF32);
  append(bytes_, value);
}

void GgufKeys::add(std::string_view key, bool value) {
  begin(key, kBool);
  bytes_ += value ? '\1' : '\0';
}

void GgufKeys::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  append_string(bytes_, value);
}

void GgufKeys::add(std::string_view key, std::span<const std::string> values) {
  begin(key, kArray);
  append(bytes_, kString);
  append(bytes_, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) append_string(bytes_, value);
}

void GgufKeys::add(std::string_view key, std::span<const float> values) {
  begin(key, kArray);
  append_array(bytes_, kF32, values);
}

void GgufKeys::add(std::string_view key, std::span<const std::int32_t> values) {
  begin(key, kArray);
  append_array(bytes_, kI32, values);
}

void GgufKeys::add_typed(std::string_view key, std::span<const std::byte> typed_value) {
  append_string(bytes_, key);
  bytes_.append(reinterpret_cast<const char*>(typed_value.data()), typed_value.size());
  ++count_;
}

FileImage lay_out_gguf(const GgufKeys& keys, std::span<const NewTensor> tensors, std::uint64_t alignment) {
  FileImage image;
  std::string& header = image.header;
  header = "GGUF";
  append(header, std::uint32_t{3});
  append(header, static_cast<std::uint64_t>(tensors.size()));
  append(header, keys.count());
  header += keys.bytes();
  std::uint64_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    PAGODA_CHECK(tensor.format->gguf_type >= 0 && !tensor.shape.empty(), "{} as {}", tensor.name, tensor.format->name);
    append_string(header, tensor.name);
    append(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      append(header, static_cast<std::uint64_t>(*size));
    }
    append(header, static_cast<std::uint32_t>(tensor.format->gguf_type));
    append(header, offset);
    image.offsets.push_back(offset);
    offset = round_up(offset + tensor.bytes(), alignment);
  }
  const std::uint64_t data = round_up<std::uint64_t>(header.size(), alignment);
  for (std::uint64_t& each : image.offsets) each += data;
  image.bytes = data + offset;
  return image;
}

}  // namespace pagoda::io
