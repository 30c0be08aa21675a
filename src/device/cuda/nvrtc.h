// NVRTC, NVIDIA's compiler as a library, opened at run time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/compile_unit.h"
#include "device/cuda/shared_library.h"

namespace pagoda::device::cuda {

class Nvrtc {
 public:
  /// Tries the libraries of CUDA 13 and 12, by name and in /usr/local/cuda. Error: kDeviceMissing.
  static Result<std::shared_ptr<const Nvrtc>> load();
  static Result<std::shared_ptr<const Nvrtc>> load(const std::vector<std::string>& names);

  /// "13.0"
  std::string version() const { return pagoda::format("{}.{}", major_, minor_); }

  /// The cubin of a unit. Needs no GPU; may be called from several threads. `headers` are all texts it may include;
  /// `line_info` is what profilers want to name lines of the source by.
  /// Error: kInternal with the compiler's words.
  Result<std::vector<std::byte>> compile(const CompileUnit& unit, const EmbeddedSource& source,
                                         std::span<const EmbeddedSource> headers, bool line_info = true) const;

  /// The options a unit is compiled with, in order.
  static std::vector<std::string> options(const CompileUnit& unit, bool line_info = true);

 private:
  struct Api;
  explicit Nvrtc(SharedLibrary library);

  SharedLibrary library_;
  std::shared_ptr<const Api> api_;
  int major_ = 0;
  int minor_ = 0;
};

}  // namespace pagoda::device::cuda
