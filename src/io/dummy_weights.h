// Weights that nobody has: bytes made when they are read, the same ones each time, so that a model of any size can be
// measured without a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "io/model_file.h"
#include "quant/format.h"

namespace pagoda::io {

/// A pattern over and over, for `bytes` bytes. Reading is copying: as fast as memory, from any number of threads.
class RepeatedBytes final : public ByteSource {
 public:
  RepeatedBytes(std::string name, std::vector<std::byte> pattern, std::uint64_t bytes)
      : name_(std::move(name)), pattern_(std::move(pattern)), bytes_(bytes) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_; }
  Status read(std::uint64_t offset, std::span<std::byte> into) const override;

 private:
  std::string name_;
  std::vector<std::byte> pattern_;
  std::uint64_t bytes_;
};

/// About 1 MiB of random blocks of the format, finite and of the size that weights have (none over 1/4, the largest of
/// each block at least 1/100). Their number is a prime, so that the rows of a matrix do not repeat each other.
/// `one_scale`: all have the scale of the first, of a format whose blocks begin with it, a float.
std::vector<std::byte> random_blocks(const quant::Format& format, bool one_scale = false);

/// A model without a file: entries of `file_index` 0 are floats near 1, those of each other file are of one format, and
/// random blocks of it, with one scale where entries have row_scales.
ModelFile make_dummy_file(RawConfig config, TensorCatalog tensors);

}  // namespace pagoda::io
