// The boundary of HTTP: bytes from a network, cut as a network cuts them. Cut in two ways they are the same requests.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "server/http/parser.h"

namespace {

using pagoda::server::http::Limits;
using pagoda::server::http::RequestParser;

constexpr Limits kLimits{
    .request_line_bytes = 256, .header_bytes = 256, .headers_bytes = 1024, .num_headers = 16, .body_bytes = 512};

/// What is read out of `bytes` that come `step` at a time.
std::vector<std::string> requests_of(const std::string& bytes, std::size_t step) {
  std::vector<std::string> found;
  std::string input;
  std::size_t at = 0;
  for (;;) {
    RequestParser parser(kLimits);
    for (;;) {
      const std::size_t taken = parser.put(input);
      PAGODA_CHECK(taken <= input.size());
      input.erase(0, taken);
      PAGODA_CHECK(parser.body_bytes() <= kLimits.body_bytes);
      if (parser.fault()) {
        found.push_back("fault " + std::to_string(parser.fault()->status));
        return found;
      }
      if (parser.done()) break;
      if (taken > 0) continue;
      if (at == bytes.size()) return found;
      const std::size_t size = std::min(step, bytes.size() - at);
      input.append(bytes, at, size);
      at += size;
    }
    const auto& request = parser.request();
    found.push_back(request.method + " " + request.path + "?" + request.query + " " + request.body);
    if (!parser.keep_alive()) return found;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = requests_of(bytes, bytes.size() + 1);
  for (const std::size_t step : {1, 7}) {
    const auto cut = requests_of(bytes, step);
    // What breaks a limit may be told at another place; whole requests before it are the same.
    for (std::size_t i = 0; i < std::min(whole.size(), cut.size()); ++i) {
      if (whole[i].starts_with("fault") || cut[i].starts_with("fault")) break;
      PAGODA_CHECK(whole[i] == cut[i], "{} and {}", whole[i], cut[i]);
    }
  }
  return 0;
}
