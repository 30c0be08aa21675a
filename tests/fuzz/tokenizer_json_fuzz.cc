// Any bytes as a tokenizer.json: it is opened or refused with an error; what is opened encodes and decodes hard texts,
// and an answer that streams says the same as a whole one. After a zero byte the input may go on with a
// tokenizer_config.json, and after another one with a text.
// A libFuzzer target (PAGODA_FUZZ=ON), and a function that the unit tests call with the files of corpus/tokenizer_json.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/stream_decoder.h"
#include "text/tokenizer_json.h"

namespace pagoda::text {
namespace {

void check_error(const Error& error) {
  PAGODA_CHECK(kind_of(error.code) == ErrorKind::kModel, "code {}", static_cast<int>(error.code));
  PAGODA_CHECK(!error.message.empty() && error.message.size() < 4096, "{}", error.message.size());
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.encode(text, special ? SpecialTokens::all() : SpecialTokens::none());
    if (!ids.ok()) {
      PAGODA_CHECK(ids.error().code == ErrorCode::kInvalidArgument, "{}", ids.error().message);
      continue;
    }
    StreamDecoder decoder(tokenizer, true);
    std::string streamed;
    for (const std::int32_t id : ids.value()) {
      PAGODA_CHECK(tokenizer.contains(id), "{}", id);
      streamed += decoder.push(id);
    }
    streamed += decoder.finish();
    PAGODA_CHECK(streamed == repair_utf8(tokenizer.decode(ids.value(), true)), "{}", streamed.size());
  }
}

std::string_view take(std::string_view& rest) {
  const std::size_t zero = rest.find('\0');
  const std::string_view part = rest.substr(0, zero);
  rest.remove_prefix(zero == std::string_view::npos ? rest.size() : zero + 1);
  return part;
}

}  // namespace
}  // namespace pagoda::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda::text;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view file = take(rest);
  const std::string_view config = take(rest);
  auto source = read_tokenizer_json({.tokenizer = file, .config = config, .end_ids = {}});
  if (!source.ok()) {
    check_error(source.error());
    return 0;
  }
  const auto tokenizer = Tokenizer::create(std::move(source).value());
  if (!tokenizer.ok()) {
    check_error(tokenizer.error());
    return 0;
  }
  for (const std::string_view text :
       {"", " Hello, 12 w\xC3\xB6rlds!\n\n", "\xE2\x96\x81 <s>e\xCC\x81\xFF<0x0A>", "aaaaaaa  \t"}) {
    check_text(**tokenizer, text);
  }
  check_text(**tokenizer, rest.substr(0, 1000));
  return 0;
}
