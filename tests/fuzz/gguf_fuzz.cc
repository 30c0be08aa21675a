// Any bytes as a GGUF file: the reader accepts them or returns an error; what it accepts can be read to the last byte.
// A libFuzzer target (PAGODA_FUZZ=ON), and a function that the unit tests call with the files of corpus/gguf.
#include <cstdint>

#include "base/check.h"
#include "io/model_file.h"

namespace pagoda::io {
namespace {

/// Looks at every element, so that a list that claims more than it holds is found out.
std::uint64_t touch(const Value& value) {
  std::uint64_t sum = value.kind().size();
  if (const auto* list = value.get_if<StringList>()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      for (const char c : (*list)[i]) sum += static_cast<std::uint8_t>(c);
    }
  }
  if (const auto* list = value.get_if<NumberList>()) {
    for (std::size_t i = 0; i < list->size(); ++i) sum += list->number(i) > 0 ? 1 : 0;
  }
  if (const auto* list = value.get_if<Value::List>()) {
    for (const Value& element : *list) sum += touch(element);
  }
  return sum;
}

void check_message(const Error& error) {
  PAGODA_CHECK(kind_of(error.code) == ErrorKind::kModel, "code {}", static_cast<int>(error.code));
  PAGODA_CHECK(error.message.starts_with("fuzz.gguf: "), "{}", error.message);
  for (const char c : error.message) PAGODA_CHECK(c >= 0x20 && c < 0x7f, "{}", error.message);
}

}  // namespace
}  // namespace pagoda::io

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const std::span<const std::uint8_t> bytes(data, size);
  auto model = io::open_gguf(std::make_unique<io::MemorySource>("fuzz.gguf", std::as_bytes(bytes)));
  if (!model.ok()) {
    io::check_message(model.error());
    return 0;
  }
  std::uint64_t sum = 0;
  for (const std::string_view key : model->config().keys()) sum += io::touch(*model->config().find(key));
  std::vector<std::byte> buffer;
  std::vector<float> values;
  for (const io::TensorEntry& entry : model->tensors().entries()) {
    PAGODA_CHECK(model->tensors().find(entry.name) == &entry, "{}", entry.name.size());
    if (entry.rows() == 0) continue;
    buffer.resize(static_cast<std::size_t>(entry.format->row_bytes(entry.cols())));
    const Status status = model->read_rows(entry, entry.rows() - 1, 1, buffer);
    PAGODA_CHECK(status.ok(), "the last row cannot be read");
    values.resize(static_cast<std::size_t>(entry.cols()));
    entry.format->decode_row(buffer.data(), entry.cols(), values.data());
  }
  return static_cast<int>(sum & 0);
}
