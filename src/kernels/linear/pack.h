// pack: rows of a weight, as a file has them, into a device's memory in the layout of the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "kernels/arithmetic.h"
#include "kernels/linear/layout.h"

namespace pagoda::kernels {

/// One for each thread that loads. A caller asks for staging, reads rows into it, and has them packed; on a GPU the
/// next rows are read while the last ones travel.
class Packer {
 public:
  virtual ~Packer() = default;

  /// Room for `bytes` of a file: the memory that `pack` and `widen` read from. Valid until the next call.
  virtual Result<std::span<std::byte>> staging(std::int64_t bytes) = 0;

  /// Packs rows [first_row, first_row + num_rows) from the staging; the range is one that Layout::pack takes.
  virtual void pack(const quant::Format& format, const Layout& layout, WeightShape shape, std::int64_t first_row,
                    std::int64_t num_rows, std::byte* packed) = 0;

  /// A vector of `count` elements in the staging, as floats.
  virtual void widen(const quant::Format& format, std::int64_t count, float* to) = 0;

  /// Returns when all that was packed is in place.
  virtual void finish() = 0;
};

/// `num` of them, for the weights of these formats and layouts. Errors: kDeviceMemory; what units fail with.
Result<std::vector<std::unique_ptr<Packer>>> make_packers(device::Device& device, int num);

/// Bytes of a file that should be read and packed at once.
std::int64_t piece_bytes(const device::DeviceCaps& caps);

/// What packing a weight needs compiled.
std::vector<CompileUnit> pack_units(const quant::Format& format, const Layout& layout, const device::DeviceCaps& caps);

}  // namespace pagoda::kernels
