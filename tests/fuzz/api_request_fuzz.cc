// Bodies of requests: any bytes are read into a request or refused with an error that is JSON and names its field.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "server/json/json.h"
#include "server/protocol/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda::server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto json = parse_json(bytes);
  if (!json.ok()) {
    const std::string back = quoted(json.error().message);
    PAGODA_CHECK(parse_json(back).ok(), "{}", back);
    return 0;
  }
  const std::string text = to_text(*json);
  const auto again = parse_json(text);
  PAGODA_CHECK(again.ok(), "{}", text);
  PAGODA_CHECK(to_text(*again) == text, "{}", text);
  const Json* const messages = json->find("messages");
  if (messages == nullptr) return 0;
  const auto read = read_messages(*messages);
  if (read.ok()) PAGODA_CHECK(parse_json(*read).ok(), "{}", *read);
  return 0;
}
