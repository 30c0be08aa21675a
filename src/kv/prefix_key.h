// The name of a cached block: a salted 256-bit hash of everything its keys and values depend on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace pagoda::kv {

using Digest = std::array<std::uint8_t, 32>;

/// Content that replaces ids of a prompt (an image, an adapter): its full digest, and where it begins.
struct ContentDigest {
  std::int64_t position = 0;
  Digest digest{};
};

/// Makes the chain of keys: root(model, salt) → block 0 → block 1 → … Each key is SHA-256 over fields that are each a
/// tag, a 64-bit length and the bytes, so that no two lists of fields have the same bytes. The secret salt keeps a
/// stranger from finding two prompts with one key; hits compare ids all the same. Not thread-safe.
class KeyChain {
 public:
  /// An empty salt: 256 random bits of this process.
  explicit KeyChain(std::string_view salt);
  ~KeyChain();
  KeyChain(KeyChain&&) noexcept;
  KeyChain& operator=(KeyChain&&) noexcept;

  /// Where a chain begins. Prompts under different cache salts share nothing.
  Digest root(std::string_view model_id, std::string_view cache_salt);

  /// The key of the block of `tokens` that follows the block `parent`.
  Digest block(const Digest& parent, std::span<const std::int32_t> tokens, std::span<const ContentDigest> content = {});

 private:
  struct Hash;
  std::unique_ptr<Hash> hash_;
  Digest salt_{};
};

}  // namespace pagoda::kv
