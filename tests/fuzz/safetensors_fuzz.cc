// Any bytes as a safetensors file, and as the index and the configuration of a directory: the readers accept them or
// return an error; what they accept can be read to the last byte.
// A libFuzzer target (PAGODA_FUZZ=ON), and a function that the unit tests call with the files of corpus/safetensors.
#include <cstdint>

#include "base/check.h"
#include "io/json_config.h"
#include "io/model_folder.h"
#include "io/safetensors.h"

namespace pagoda::io {
namespace {

void check_message(const Error& error) {
  PAGODA_CHECK(kind_of(error.code) == ErrorKind::kModel, "code {}", static_cast<int>(error.code));
  PAGODA_CHECK(error.message.starts_with("fuzz: "), "{}", error.message);
  for (const char c : error.message) PAGODA_CHECK(c >= 0x20 && c < 0x7f, "{}", error.message);
}

void read_file(std::span<const std::byte> bytes) {
  const MemorySource source("fuzz", bytes);
  const auto tensors = read_safetensors(source);
  if (!tensors.ok()) return check_message(tensors.error());
  std::uint64_t covered = 0;
  std::vector<std::byte> buffer;
  std::vector<float> values;
  for (const TensorEntry& entry : *tensors) {
    covered += entry.bytes;
    if (entry.format == nullptr) continue;  // a part of a weight
    PAGODA_CHECK(static_cast<std::uint64_t>(entry.rows() * entry.format->row_bytes(entry.cols())) == entry.bytes,
                 "{} bytes", entry.bytes);
    if (entry.bytes == 0) continue;
    buffer.resize(static_cast<std::size_t>(entry.format->row_bytes(entry.cols())));
    PAGODA_CHECK(source.read(entry.offset + entry.bytes - buffer.size(), buffer).ok(), "the last row cannot be read");
    values.resize(static_cast<std::size_t>(entry.cols()));
    entry.format->decode_row(buffer.data(), entry.cols(), values.data());
  }
  PAGODA_CHECK(covered <= bytes.size(), "{} of {} bytes", covered, bytes.size());
}

}  // namespace
}  // namespace pagoda::io

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const std::span<const std::uint8_t> bytes(data, size);
  io::read_file(std::as_bytes(bytes));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = io::parse_shard_index("fuzz", text); !index.ok()) io::check_message(index.error());
  const auto config = io::parse_json_config("fuzz", text);
  if (!config.ok()) {
    io::check_message(config.error());
    return 0;
  }
  for (const std::string_view key : config->keys()) (void)config->find(key)->kind();
  return 0;
}
