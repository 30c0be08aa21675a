#include "device/cuda/kernel_pack.h"

#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "base/check.h"

namespace pagoda::device::cuda {
namespace {

constexpr std::string_view kMark = "pagoda-kernels-2";
constexpr std::size_t kCompilerBytes = 16;  // of its version, filled up with zeros
constexpr std::size_t kCountOffset = kMark.size() + kCompilerBytes;
constexpr std::size_t kDigestOffset = kCountOffset + sizeof(std::uint64_t);
constexpr std::size_t kHeaderBytes = kDigestOffset + sizeof(Sha256);
constexpr std::size_t kEntryBytes = 2 * sizeof(Sha256) + 5 * sizeof(std::uint64_t);
constexpr std::uint64_t kMostFrameBytes = std::uint64_t{1} << 28;
constexpr std::size_t kFrameBytes = std::size_t{2} << 20;  // of cubins; a larger one has a frame of its own
constexpr std::size_t kOpenFrames = 8;                     // a model's kernels are read source by source
constexpr int kLevel = 19;

void append(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
  bytes.resize(bytes.size() + count);
  std::memcpy(bytes.data() + bytes.size() - count, from, count);
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  append(bytes, &value, sizeof value);
}

std::vector<std::byte> compress(std::span<const PackedKernel> kernels) {
  std::vector<std::byte> whole;
  for (const PackedKernel& kernel : kernels) append(whole, kernel.cubin.data(), kernel.cubin.size());
  std::vector<std::byte> packed(ZSTD_compressBound(whole.size()));
  const std::size_t bytes = ZSTD_compress(packed.data(), packed.size(), whole.data(), whole.size(), kLevel);
  PAGODA_CHECK(ZSTD_isError(bytes) == 0, "{}", ZSTD_getErrorName(bytes));
  packed.resize(bytes);
  return packed;
}

/// Neighbours that share a frame.
std::vector<std::span<const PackedKernel>> frames_of(std::span<const PackedKernel> kernels) {
  std::vector<std::span<const PackedKernel>> frames;
  std::size_t first = 0, bytes = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (i > first && bytes + kernels[i].cubin.size() > kFrameBytes) {
      frames.push_back(kernels.subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += kernels[i].cubin.size();
  }
  if (first < kernels.size()) frames.push_back(kernels.subspan(first));
  return frames;
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
  take(entry.frame_bytes);
  take(entry.begin);
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

std::shared_ptr<const std::vector<std::byte>> KernelPack::frame_of(const Entry& entry) const {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(open_, entry.offset, &OpenFrame::offset);
  if (known != open_.end() && known->bytes->size() == entry.frame_bytes) {
    std::rotate(known, known + 1, open_.end());
    return open_.back().bytes;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(entry.frame_bytes);
  const std::size_t got =
      ZSTD_decompress(bytes->data(), bytes->size(), bytes_.data() + entry.offset, entry.packed_bytes);
  if (ZSTD_isError(got) != 0 || got != bytes->size()) return nullptr;
  if (open_.size() == kOpenFrames) open_.erase(open_.begin());
  open_.push_back({.offset = entry.offset, .bytes = bytes});
  return bytes;
}

Result<std::vector<std::byte>> KernelPack::cubin(const Sha256& key) const {
  const std::optional<Entry> found = find(key);
  if (!found) return std::vector<std::byte>{};
  const auto damaged = [&] { return fail(ErrorCode::kIoFailed, "the packed kernel {} is damaged", to_hex(key)); };
  if (found->offset > bytes_.size() || found->packed_bytes > bytes_.size() - found->offset ||
      found->frame_bytes > kMostFrameBytes || found->begin > found->frame_bytes ||
      found->cubin_bytes > found->frame_bytes - found->begin) {
    return damaged();
  }
  const auto frame = frame_of(*found);
  if (frame == nullptr) return damaged();
  const auto at = frame->begin() + static_cast<std::ptrdiff_t>(found->begin);
  std::vector<std::byte> cubin(at, at + static_cast<std::ptrdiff_t>(found->cubin_bytes));
  if (sha256(cubin) != found->digest) return damaged();
  return cubin;
}

std::vector<std::byte> write_kernel_pack(std::string_view compiler, std::span<const PackedKernel> kernels,
                                         int num_threads) {
  PAGODA_CHECK(compiler.size() < kCompilerBytes, "{}", compiler);
  const std::vector<std::span<const PackedKernel>> frames = frames_of(kernels);
  std::vector<std::vector<std::byte>> packed(frames.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < frames.size(); i = next++) packed[i] = compress(frames[i]);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();

  std::map<Sha256, std::vector<std::byte>> entries;
  std::vector<std::byte> body;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    std::uint64_t frame_bytes = 0, begin = 0;
    for (const PackedKernel& kernel : frames[i]) frame_bytes += kernel.cubin.size();
    for (const PackedKernel& kernel : frames[i]) {
      std::vector<std::byte>& entry = entries[kernel.key];
      PAGODA_CHECK(entry.empty(), "{} twice", to_hex(kernel.key));
      append(entry, kernel.key);
      append(entry, sha256(kernel.cubin));
      append(entry, std::uint64_t{kHeaderBytes + kernels.size() * kEntryBytes + body.size()});
      append(entry, std::uint64_t{packed[i].size()});
      append(entry, frame_bytes);
      append(entry, begin);
      append(entry, std::uint64_t{kernel.cubin.size()});
      begin += kernel.cubin.size();
    }
    append(body, packed[i].data(), packed[i].size());
  }
  std::vector<std::byte> index;
  for (const auto& [key, entry] : entries) append(index, entry.data(), entry.size());
  std::vector<std::byte> bytes(kCountOffset);
  std::memcpy(bytes.data(), kMark.data(), kMark.size());
  std::memcpy(bytes.data() + kMark.size(), compiler.data(), compiler.size());
  append(bytes, std::uint64_t{kernels.size()});
  append(bytes, sha256(index));
  append(bytes, index.data(), index.size());
  append(bytes, body.data(), body.size());
  return bytes;
}

}  // namespace pagoda::device::cuda
