#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::device::cuda {

/// A library opened at run time, never linked, so that the program starts without it.
class SharedLibrary {
 public:
  /// Tries the names in turn. Error: kDeviceMissing with the system's reason for the first.
  static Result<SharedLibrary> open(const std::vector<std::string>& names);

  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  ~SharedLibrary();

  /// Null if the library has no such symbol.
  void* symbol(const char* name) const;
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace pagoda::device::cuda
