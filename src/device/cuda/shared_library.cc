#include "device/cuda/shared_library.h"

#include <dlfcn.h>

namespace pagoda::device::cuda {

Result<SharedLibrary> SharedLibrary::open(const std::vector<std::string>& names) {
  std::string reason;
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(handle, name);
    if (reason.empty()) reason = dlerror();
  }
  return fail(ErrorCode::kDeviceMissing, "{}", reason);  // which names the library
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace pagoda::device::cuda
