// A GPU that plans are prepared for: its context, its loaded kernels, its memory.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/blas.h"
#include "device/cuda/compiler.h"
#include "device/cuda/memory.h"
#include "device/device.h"

namespace pagoda::device::cuda {

class CudaDevice final : public Device {
 public:
  /// Makes the card's context the calling thread's. Errors: kDeviceMissing, kDeviceUnfit.
  static Result<std::unique_ptr<CudaDevice>> open(std::int32_t ordinal, std::shared_ptr<Compiler> compiler);
  static Result<std::unique_ptr<CudaDevice>> open(std::shared_ptr<const Driver> driver, std::int32_t ordinal,
                                                  std::shared_ptr<Compiler> compiler);

  Result<Memory> allocate(std::int64_t bytes, const char* purpose, Use use = Use::kOnce) override;
  void upload(std::byte* to, const void* from, std::int64_t bytes) override;
  void download(void* to, const void* from, std::int64_t bytes);

  /// Addresses for so many bytes, and memory behind the first of them, both as AddressRange's, with `purpose` in the
  /// error.
  Result<AddressRange> reserve(std::int64_t bytes, const char* purpose);
  Status grow(AddressRange& range, std::int64_t bytes, const char* purpose);

  const ContextPtr& context() const { return context_; }
  Compiler& compiler() { return *compiler_; }

  /// A kernel of a unit, loaded once for the whole program.
  template <class P>
  Result<Kernel<P>> kernel(const CompileUnit& unit, const std::string& name) {
    return loader_.kernel<P>(unit, name);
  }

  /// Bytes that `allocate` and `grow` have taken from the card, all in all: it stays the same once a model is ready.
  std::int64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  CudaDevice(ContextPtr context, std::shared_ptr<Compiler> compiler, PinnedBytes staging);

  ContextPtr context_;
  std::shared_ptr<Compiler> compiler_;
  ModuleLoader loader_;
  CudaStream stream_;
  PinnedBytes staging_;
  std::int64_t allocated_bytes_ = 0;
};

/// The GPU behind a device: CUDA candidates are only ever prepared for one.
CudaDevice& cuda(Device& device);

}  // namespace pagoda::device::cuda
