// API keys.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/message.h"

namespace pagoda::server {

/// Keeps digests of the keys, never the keys. A comparison takes the same time whatever was given: it is over digests
/// of one size, over all keys, without an early exit.
class Keys {
 public:
  explicit Keys(std::span<const std::string> keys);

  bool empty() const { return digests_.empty(); }

  /// Whether the request bears one of them: "Authorization: Bearer K", or "X-Api-Key: K".
  bool admit(const http::Request& request) const;

 private:
  using Digest = std::array<unsigned char, 32>;

  bool knows(std::string_view key) const;

  std::vector<Digest> digests_;
};

}  // namespace pagoda::server
