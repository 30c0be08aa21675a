#include "device/cuda/kernel_pack.h"

#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/check.h"

namespace pagoda::device::cuda {
namespace {

constexpr std::string_view kMark = "pagoda-kernels-1";
constexpr std::size_t kCompilerBytes = 16;  // of its version, filled up with zeros
constexpr std::size_t kCountOffset = kMark.size() + kCompilerBytes;
constexpr std::size_t kDigestOffset = kCountOffset + sizeof(std::uint64_t);
constexpr std::size_t kHeaderBytes = kDigestOffset + sizeof(Sha256);
constexpr std::size_t kEntryBytes = 2 * sizeof(Sha256) + 3 * sizeof(std::uint64_t);
constexpr std::uint64_t kMostCubinBytes = std::uint64_t{1} << 28;
constexpr int kLevel = 19;

void append(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
  bytes.resize(bytes.size() + count);
  std::memcpy(bytes.data() + bytes.size() - count, from, count);
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  append(bytes, &value, sizeof value);
}

std::vector<std::byte> compress(const std::vector<std::byte>& cubin) {
  std::vector<std::byte> packed(ZSTD_compressBound(cubin.size()));
  const std::size_t bytes = ZSTD_compress(packed.data(), packed.size(), cubin.data(), cubin.size(), kLevel);
  PAGODA_CHECK(ZSTD_isError(bytes) == 0, "{}", ZSTD_getErrorName(bytes));
  packed.resize(bytes);
  return packed;
}

}  // namespace

Result<std::shared_ptr<const KernelPack>> KernelPack::open(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMark.data(), kMark.size()) != 0) {
    return fail(ErrorCode::kIoFailed, "the packed kernels do not start as such do");
  }
  auto pack = std::make_shared<KernelPack>();
  pack->bytes_ = bytes;
  pack->index_offset_ = kHeaderBytes;
  const auto* const compiler = reinterpret_cast<const char*>(bytes.data() + kMark.size());
  pack->compiler_.assign(compiler, std::find(compiler, compiler + kCompilerBytes, '\0'));
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + kCountOffset, sizeof count);
  if (count > (bytes.size() - kHeaderBytes) / kEntryBytes) {
    return fail(ErrorCode::kIoFailed, "the packed kernels end in their index");
  }
  pack->num_entries_ = count;
  const Sha256 digest = sha256(bytes.subspan(kHeaderBytes, count * kEntryBytes));
  if (std::memcmp(bytes.data() + kDigestOffset, digest.data(), digest.size()) != 0) {
    return fail(ErrorCode::kIoFailed, "the index of the packed kernels is damaged");
  }
  return std::shared_ptr<const KernelPack>(std::move(pack));
}

KernelPack::Entry KernelPack::entry(std::size_t index) const {
  const std::byte* at = bytes_.data() + index_offset_ + index * kEntryBytes;
  const auto take = [&at](auto& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  };
  Entry entry;
  take(entry.key);
  take(entry.digest);
  take(entry.offset);
  take(entry.packed_bytes);
  take(entry.cubin_bytes);
  return entry;
}

std::optional<KernelPack::Entry> KernelPack::find(const Sha256& key) const {
  std::size_t first = 0, end = num_entries_;
  while (first < end) {
    const std::size_t middle = first + (end - first) / 2;
    if (entry(middle).key < key) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  if (first == num_entries_ || entry(first).key != key) return std::nullopt;
  return entry(first);
}

Result<std::vector<std::byte>> KernelPack::cubin(const Sha256& key) const {
  const std::optional<Entry> found = find(key);
  if (!found) return std::vector<std::byte>{};
  const auto damaged = [&] { return fail(ErrorCode::kIoFailed, "the packed kernel {} is damaged", to_hex(key)); };
  if (found->offset > bytes_.size() || found->packed_bytes > bytes_.size() - found->offset ||
      found->cubin_bytes > kMostCubinBytes) {
    return damaged();
  }
  std::vector<std::byte> cubin(found->cubin_bytes);
  const std::size_t bytes =
      ZSTD_decompress(cubin.data(), cubin.size(), bytes_.data() + found->offset, found->packed_bytes);
  if (ZSTD_isError(bytes) != 0 || bytes != cubin.size() || sha256(cubin) != found->digest) return damaged();
  return cubin;
}

std::vector<std::byte> write_kernel_pack(std::string_view compiler,
                                         const std::map<Sha256, std::vector<std::byte>>& cubins, int num_threads) {
  PAGODA_CHECK(compiler.size() < kCompilerBytes, "{}", compiler);
  std::vector<const std::vector<std::byte>*> sources;
  for (const auto& [key, cubin] : cubins) sources.push_back(&cubin);
  std::vector<std::vector<std::byte>> packed(sources.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) packed[i] = compress(*sources[i]);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();

  std::vector<std::byte> index, frames;
  std::size_t at = 0;
  for (const auto& [key, cubin] : cubins) {
    append(index, key);
    append(index, sha256(cubin));
    append(index, std::uint64_t{kHeaderBytes + cubins.size() * kEntryBytes + frames.size()});
    append(index, std::uint64_t{packed[at].size()});
    append(index, std::uint64_t{cubin.size()});
    append(frames, packed[at].data(), packed[at].size());
    ++at;
  }
  std::vector<std::byte> bytes(kCountOffset);
  std::memcpy(bytes.data(), kMark.data(), kMark.size());
  std::memcpy(bytes.data() + kMark.size(), compiler.data(), compiler.size());
  append(bytes, std::uint64_t{cubins.size()});
  append(bytes, sha256(index));
  append(bytes, index.data(), index.size());
  append(bytes, frames.data(), frames.size());
  return bytes;
}

}  // namespace pagoda::device::cuda
