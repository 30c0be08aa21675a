// cuBLASLt, NVIDIA's matrix products, opened at run time: y = x · wᵀ for many rows.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/blas_types.h"
#include "device/cuda/stream.h"

namespace pagoda::device::cuda {

/// The library and a handle of the current context's device. Thread-safe.
class Blas {
 public:
  /// Tries the libraries of CUDA 13 and 12, by name and in /usr/local/cuda; `context` is made current. Errors:
  /// kDeviceMissing (no such library), kDeviceUnfit (one that Pagoda does not know, or that refuses the device).
  static Result<std::shared_ptr<const Blas>> load(ContextPtr context);

  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// "13.1.0"
  std::string version() const;

 private:
  friend class BlasPlan;
  struct Api;
  Blas(ContextPtr context, std::shared_ptr<const Api> api) : context_(std::move(context)), api_(std::move(api)) {}

  ContextPtr context_;
  std::shared_ptr<const Api> api_;
  void* handle_ = nullptr;
};

/// A product's shape. All matrices are rows one after the other, their beginnings aligned to 16 bytes; strides are in
/// elements.
struct BlasProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t input_stride = 0;   ///< of x (m, k) bf16
  std::int64_t weight_stride = 0;  ///< of w (n, k) bf16
  std::int64_t output_stride = 0;  ///< of y (m, n)
  bool float_output = false;       ///< else bf16
  bool accumulate = false;         ///< y += scale · x · wᵀ: a residual; else y is only written
  bool bias = false;               ///< + bias[n], of y's type; not with `accumulate`
  float scale = 1;

  friend bool operator==(const BlasProblem&, const BlasProblem&) = default;
};

/// A product whose algorithm is fixed: the same bits at every launch, and nothing is chosen or allocated then.
/// Accumulates in float. Immutable; may be captured.
class BlasPlan {
 public:
  /// Error: kDeviceUnfit if cuBLASLt has no algorithm for the problem within `workspace_bytes`.
  static Result<BlasPlan> prepare(std::shared_ptr<const Blas> blas, const BlasProblem& problem,
                                  std::int64_t workspace_bytes);

  /// `workspace` is workspace_bytes() of device memory, aligned to 256, not shared with work of another stream. `bias`
  /// only with problem.bias. Throws DeviceError.
  void launch(CudaStream& stream, const void* input, const void* weight, void* output, void* workspace,
              const void* bias = nullptr) const;

  const BlasProblem& problem() const;
  std::int64_t workspace_bytes() const;  ///< what the algorithm needs
  /// "cublaslt 13.1.0 algorithm 66 tile 20 stages 36 split 1 cluster 5"
  std::string algorithm() const;

 private:
  struct Prepared;
  explicit BlasPlan(std::shared_ptr<const Prepared> prepared) : prepared_(std::move(prepared)) {}

  std::shared_ptr<const Prepared> prepared_;
};

}  // namespace pagoda::device::cuda
