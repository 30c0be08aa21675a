#include "kernels/linear/pack.h"

#include <array>

#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda_codes.h"
#include "kernels/linear/cuda_to_mma16.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kHostPiece = std::int64_t{1} << 20;
constexpr std::int64_t kGpuPiece = std::int64_t{4} << 20;

class HostPacker final : public Packer {
 public:
  Result<std::span<std::byte>> staging(std::int64_t bytes) override {
    staging_.resize(std::max(staging_.size(), static_cast<std::size_t>(bytes)));
    return std::span(staging_.data(), static_cast<std::size_t>(bytes));
  }
  void pack(const quant::Format& format, const Layout& layout, WeightShape shape, std::int64_t first_row,
            std::int64_t num_rows, std::byte* packed) override {
    layout.pack(format, shape, first_row, num_rows, staging_.data(), packed);
  }
  void widen(const quant::Format& format, std::int64_t count, float* to) override {
    format.decode_row(staging_.data(), count, to);
  }
  void finish() override {}

 private:
  std::vector<std::byte> staging_;
};

/// Two pieces in turn: one is read from the file while the other is copied and packed.
class CudaPacker final : public Packer {
 public:
  explicit CudaPacker(device::cuda::CudaDevice& device) : device_(device), stream_(device.context()) {}

  Result<std::span<std::byte>> staging(std::int64_t bytes) override {
    device_.context()->make_current();
    now_ ^= 1;
    Piece& piece = pieces_[now_];
    if (!piece.host || piece.host->bytes() < bytes) {
      finish();
      const std::int64_t size = std::max(bytes, kGpuPiece);
      piece.host.emplace(PAGODA_TRY(device::cuda::PinnedBytes::create(device_.context(), size)));
      piece.device.emplace(PAGODA_TRY(device::cuda::AddressRange::reserve(device_.context(), size)));
      PAGODA_TRY(piece.device->map(size));
    }
    piece.bytes = bytes;
    return std::span(piece.host->host(), static_cast<std::size_t>(bytes));
  }

  void pack(const quant::Format& format, const Layout& layout, WeightShape shape, std::int64_t first_row,
            std::int64_t num_rows, std::byte* packed) override {
    Piece& piece = pieces_[now_];
    if (&layout == &kRowsLayout) {
      piece.host->upload(0, piece.bytes, packed + first_row * format.row_bytes(shape.k), stream_);
      return;
    }
    piece.host->upload(0, piece.bytes, piece.device->data(), stream_);
    if (&layout == &kMmaCodesLayout) {
      const Result<PackCodes> kernel = PackCodes::load(format, device_);
      if (!kernel.ok()) throw device::cuda::DeviceError(kernel.error());
      kernel->launch(piece.device->data(), shape, first_row, num_rows, packed, stream_);
      return;
    }
    const Result<ToMma16> kernel = ToMma16::load(format, device_);
    if (!kernel.ok()) throw device::cuda::DeviceError(kernel.error());
    const std::size_t before = layout.packed_bytes(format, {.n = first_row, .k = shape.k});
    kernel->launch(piece.device->data(), {.n = num_rows, .k = shape.k}, nullptr, packed + before, false, stream_);
  }

  void widen(const quant::Format& format, std::int64_t count, float* to) override {
    std::vector<float> values(static_cast<std::size_t>(count));
    format.decode_row(pieces_[now_].host->host(), count, values.data());
    const auto bytes = count * static_cast<std::int64_t>(sizeof(float));
    const Result<std::span<std::byte>> staged = staging(bytes);
    if (!staged.ok()) throw device::cuda::DeviceError(staged.error());
    std::memcpy(staged->data(), values.data(), static_cast<std::size_t>(bytes));
    pieces_[now_].host->upload(0, bytes, to, stream_);
  }

  void finish() override {
    device_.context()->make_current();
    stream_.synchronize();
  }

 private:
  struct Piece {
    std::optional<device::cuda::PinnedBytes> host;
    std::optional<device::cuda::AddressRange> device;
    std::int64_t bytes = 0;
  };
  device::cuda::CudaDevice& device_;
  device::cuda::CudaStream stream_;
  std::array<Piece, 2> pieces_;
  std::size_t now_ = 0;
};

}  // namespace

Result<std::vector<std::unique_ptr<Packer>>> make_packers(device::Device& device, int num) {
  std::vector<std::unique_ptr<Packer>> packers;
  for (int i = 0; i < num; ++i) {
    if (on_cuda(device.caps())) {
      packers.push_back(std::make_unique<CudaPacker>(device::cuda::cuda(device)));
    } else {
      packers.push_back(std::make_unique<HostPacker>());
    }
  }
  return packers;
}

std::int64_t piece_bytes(const device::DeviceCaps& caps) { return on_cuda(caps) ? kGpuPiece : kHostPiece; }

std::vector<CompileUnit> pack_units(const quant::Format& format, const Layout& layout, const device::DeviceCaps& caps) {
  if (!on_cuda(caps) || &layout == &kRowsLayout) return {};
  if (&layout == &kMmaCodesLayout) return {PackCodes::unit(format, caps)};
  return {ToMma16::unit(format, caps)};
}

}  // namespace pagoda::kernels
