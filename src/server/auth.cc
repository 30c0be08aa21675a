#include "server/auth.h"

#include "base/sha256.h"

namespace pagoda::server {
namespace {

std::array<unsigned char, 32> digest_of(std::string_view key) {
  const auto digest = sha256(std::as_bytes(std::span(key)));
  static_assert(sizeof digest == 32);
  std::array<unsigned char, 32> out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(digest[i]);
  return out;
}

/// Nothing unless the header begins so; the scheme's letters may be large or small.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    if ((static_cast<unsigned char>(header[i]) | 0x20) != static_cast<unsigned char>(kScheme[i])) return {};
  }
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  return header;
}

}  // namespace

Keys::Keys(std::span<const std::string> keys) {
  for (const std::string& key : keys) digests_.push_back(digest_of(key));
}

bool Keys::knows(std::string_view key) const {
  const Digest given = digest_of(key);
  unsigned found = 0;
  for (const Digest& digest : digests_) {
    unsigned difference = 0;
    for (std::size_t i = 0; i < digest.size(); ++i) difference |= static_cast<unsigned>(digest[i] ^ given[i]);
    found |= ((difference - 1u) >> 31) & 1u;  // 1 if there was no difference
  }
  return found != 0;
}

bool Keys::admit(const http::Request& request) const {
  bool admitted = false;
  if (const std::string* const header = request.header("authorization")) admitted = knows(bearer(*header));
  if (const std::string* const header = request.header("x-api-key")) admitted |= knows(*header);
  return admitted;
}

}  // namespace pagoda::server
