#include "kv/prefix_key.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace pagoda::kv {

namespace {

/// What a field is; its tag keeps, say, a model id from reading as a salt.
enum class Tag : std::uint8_t { kProcessSalt = 1, kModel, kCacheSalt, kParent, kTokens, kContent };

}  // namespace

/// SHA-256 over tagged fields, one message after the other in the same context.
struct KeyChain::Hash {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_MD* sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);

  Hash() { PAGODA_CHECK(context != nullptr && sha256 != nullptr, "libcrypto offers no SHA-256"); }
  ~Hash() {
    EVP_MD_free(sha256);
    EVP_MD_CTX_free(context);
  }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void begin() { PAGODA_CHECK(EVP_DigestInit_ex2(context, sha256, nullptr) == 1); }

  void bytes(const void* data, std::size_t size) { PAGODA_CHECK(EVP_DigestUpdate(context, data, size) == 1); }

  void number(std::uint64_t value, int size) {
    std::uint8_t little_endian[8];
    for (int i = 0; i < size; ++i) little_endian[i] = static_cast<std::uint8_t>(value >> (8 * i));
    bytes(little_endian, static_cast<std::size_t>(size));
  }

  void head(Tag tag, std::size_t size) {
    number(static_cast<std::uint64_t>(tag), 1);
    number(size, 8);
  }

  void field(Tag tag, const void* data, std::size_t size) {
    head(tag, size);
    bytes(data, size);
  }

  Digest end() {
    Digest digest;
    unsigned size = 0;
    PAGODA_CHECK(EVP_DigestFinal_ex(context, digest.data(), &size) == 1 && size == digest.size(), "size {}", size);
    return digest;
  }
};

KeyChain::KeyChain(std::string_view salt) : hash_(std::make_unique<Hash>()) {
  if (salt.empty()) {
    PAGODA_CHECK(RAND_bytes(salt_.data(), static_cast<int>(salt_.size())) == 1, "the system gives no random bytes");
    return;
  }
  hash_->begin();
  hash_->field(Tag::kProcessSalt, salt.data(), salt.size());
  salt_ = hash_->end();
}

KeyChain::~KeyChain() = default;
KeyChain::KeyChain(KeyChain&&) noexcept = default;
KeyChain& KeyChain::operator=(KeyChain&&) noexcept = default;

Digest KeyChain::root(std::string_view model_id, std::string_view cache_salt) {
  hash_->begin();
  hash_->field(Tag::kProcessSalt, salt_.data(), salt_.size());
  hash_->field(Tag::kModel, model_id.data(), model_id.size());
  hash_->field(Tag::kCacheSalt, cache_salt.data(), cache_salt.size());
  return hash_->end();
}

Digest KeyChain::block(const Digest& parent, std::span<const std::int32_t> tokens,
                       std::span<const ContentDigest> content) {
  hash_->begin();
  hash_->field(Tag::kParent, parent.data(), parent.size());
  hash_->head(Tag::kTokens, tokens.size() * 4);
  for (const std::int32_t token : tokens) hash_->number(static_cast<std::uint32_t>(token), 4);
  for (const ContentDigest& item : content) {
    hash_->head(Tag::kContent, 8 + item.digest.size());
    hash_->number(static_cast<std::uint64_t>(item.position), 8);
    hash_->bytes(item.digest.data(), item.digest.size());
  }
  return hash_->end();
}

}  // namespace pagoda::kv
