#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace pagoda {

Sha256 sha256(std::span<const std::byte> bytes) {
  Sha256 digest;
  unsigned length = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &length,
                              EVP_sha256(), nullptr);
  PAGODA_CHECK(done == 1 && length == digest.size(), "SHA-256 gave {} bytes", length);
  return digest;
}

Sha256 sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text.data(), text.size()))); }

std::string to_hex(const Sha256& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[std::to_integer<int>(byte) >> 4];
    text += kDigits[std::to_integer<int>(byte) & 15];
  }
  return text;
}

}  // namespace pagoda
