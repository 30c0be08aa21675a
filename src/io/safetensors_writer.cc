#include "io/safetensors_writer.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "base/check.h"
#include "base/checked.h"

namespace pagoda::io {
std::uint64_t width_of(std::string_view dtype) {
  if (dtype == "I64" || dtype == "F64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  PAGODA_CHECK(dtype == "U8" || dtype == "I8" || dtype == "F8_E4M3" || dtype == "F8_E5M2", "{}", dtype);
  return 1;
}

FileImage lay_out_safetensors(std::span<const NewSafetensor> tensors) {
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> json(text);
  const auto put = [&](std::string_view word) {
    json.String(word.data(), static_cast<rapidjson::SizeType>(word.size()));
  };
  FileImage image;
  json.StartObject();
  put("__metadata__");
  json.StartObject();
  put("format");
  put("pt");
  json.EndObject();
  std::uint64_t offset = 0;
  for (const NewSafetensor& tensor : tensors) {
    std::uint64_t bytes = width_of(tensor.dtype);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
    PAGODA_CHECK(bytes == tensor.bytes, "{}: {} bytes, not {}", tensor.name, tensor.bytes, bytes);
    put(tensor.name);
    json.StartObject();
    put("dtype");
    put(tensor.dtype);
    put("shape");
    json.StartArray();
    for (const std::int64_t size : tensor.shape) json.Int64(size);
    json.EndArray();
    put("data_offsets");
    json.StartArray();
    json.Uint64(offset);
    json.Uint64(offset + bytes);
    json.EndArray();
    json.EndObject();
    image.offsets.push_back(offset);
    offset += bytes;
  }
  json.EndObject();
  std::string header(text.GetString(), text.GetSize());
  header.resize(round_up<std::size_t>(header.size(), 8), ' ');
  const std::uint64_t length = header.size();
  image.header.assign(reinterpret_cast<const char*>(&length), sizeof length);
  image.header += header;
  for (std::uint64_t& each : image.offsets) each += image.header.size();
  image.bytes = image.header.size() + offset;
  return image;
}

}  // namespace pagoda::io
