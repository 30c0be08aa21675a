// Loaded device code, typed by the one struct it takes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "device/cuda/stream.h"

namespace pagoda::device::cuda {

/// A cubin loaded into a context.
class Module {
 public:
  /// Error: kDeviceUnfit if the driver does not take the image.
  static Result<std::shared_ptr<const Module>> load(ContextPtr context, std::span<const std::byte> image);

  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Error: kInternal if there is no such function or its parameter is not one struct of `params_bytes`.
  Result<FunctionHandle> function(const std::string& name, std::size_t params_bytes) const;
  const ContextPtr& context_ptr() const { return context_; }

 private:
  explicit Module(ContextPtr context) : context_(std::move(context)) {}

  ContextPtr context_;
  ModuleHandle handle_ = nullptr;
};

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;  ///< dynamic
  std::uint32_t cluster = 1;       ///< blocks of a cluster along x
  /// The kernel may start while the one before it still runs: only for units in which every thread waits
  /// (griddepcontrol.wait) before it touches anything but weights, constants and the step's inputs, and before it
  /// exits.
  bool programmatic = false;
};

/// What a function takes of a multiprocessor.
struct FunctionResources {
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;  ///< static
  std::int32_t local_bytes = 0;   ///< spills and arrays
  std::int32_t max_threads = 0;
};

/// The untyped part of Kernel<P>.
class Function {
 public:
  Function() = default;
  Function(std::shared_ptr<const Module> module, FunctionHandle handle) : module_(std::move(module)), handle_(handle) {}

  /// Throws DeviceError. Returns the node if the stream is capturing, else null.
  GraphNode launch(CudaStream& stream, const LaunchConfig& config, const void* params) const;

  /// Lets launches have up to so many bytes of dynamic shared memory; needed above 48 KiB. What was allowed before
  /// stays allowed. Throws DeviceError.
  void allow_shared_bytes(std::int64_t bytes) const;
  FunctionResources resources() const;
  std::int32_t max_active_blocks(std::int32_t threads, std::int64_t shared_bytes) const;
  FunctionHandle handle() const { return handle_; }

 private:
  std::shared_ptr<const Module> module_;
  FunctionHandle handle_ = nullptr;
};

/// A kernel `extern "C" __global__ void name(const __grid_constant__ P params)`.
template <class P>
class Kernel : public Function {
 public:
  static_assert(std::is_trivially_copyable_v<P>);

  Kernel() = default;
  static Result<Kernel> load(std::shared_ptr<const Module> module, const std::string& name) {
    const FunctionHandle handle = PAGODA_TRY(module->function(name, sizeof(P)));
    return Kernel(std::move(module), handle);
  }

  GraphNode launch(CudaStream& stream, const LaunchConfig& config, const P& params) const {
    return Function::launch(stream, config, &params);
  }

 private:
  Kernel(std::shared_ptr<const Module> module, FunctionHandle handle) : Function(std::move(module), handle) {}
};

}  // namespace pagoda::device::cuda
