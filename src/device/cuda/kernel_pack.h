// Kernels compiled when the program was made, as one piece of bytes that travels in it.
//
//   mark, compiler, number of kernels, SHA-256 of the index | index, sorted by key | Zstandard frames
//
// A frame holds neighbours: kernels of one source differ in little, and together take a third of what each alone does.
// A kernel's key is a hash over all that it is made of (Compiler::pack_key), so that a program never runs what was
// compiled of other sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"

namespace pagoda::device::cuda {

class KernelPack {
 public:
  /// Reads the index. `bytes` are lent and outlive the pack. Error: kIoFailed for what is no whole pack.
  static Result<std::shared_ptr<const KernelPack>> open(std::span<const std::byte> bytes);

  std::size_t size() const { return num_entries_; }
  bool contains(const Sha256& key) const { return find(key).has_value(); }

  /// The cubin of a key; empty if there is none of it. Error: kIoFailed if what is there is damaged.
  Result<std::vector<std::byte>> cubin(const Sha256& key) const;

  /// The version of the compiler that made all of it: "12.9".
  const std::string& compiler() const { return compiler_; }

 private:
  struct Entry {
    Sha256 key, digest;                                           // the digest is of the cubin
    std::uint64_t offset = 0, packed_bytes = 0, frame_bytes = 0;  // of its frame, and what that opens to
    std::uint64_t begin = 0, cubin_bytes = 0;                     // within that
  };
  struct OpenFrame {
    std::uint64_t offset = 0;
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };

  Entry entry(std::size_t index) const;
  std::optional<Entry> find(const Sha256& key) const;
  /// What the frame of an entry opens to; null if it is damaged.
  std::shared_ptr<const std::vector<std::byte>> frame_of(const Entry& entry) const;

  mutable std::mutex mutex_;
  mutable std::vector<OpenFrame> open_;  // the ones used last, the latest at the end
  std::span<const std::byte> bytes_;
  std::size_t index_offset_ = 0;
  std::size_t num_entries_ = 0;
  std::string compiler_;
};

struct PackedKernel {
  Sha256 key;
  std::vector<std::byte> cubin;
};

/// The bytes of a pack, the same ones for the same kernels, whose keys differ. Those that are alike are best
/// neighbours. Compresses on `num_threads` threads, for size, not for time.
std::vector<std::byte> write_kernel_pack(std::string_view compiler, std::span<const PackedKernel> kernels,
                                         int num_threads);

}  // namespace pagoda::device::cuda
