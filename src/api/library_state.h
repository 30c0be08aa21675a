#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device/caps.h"
#include "device/cuda/compiler.h"
#include "pagoda/library.h"

namespace pagoda {

struct Library::State {
  LibraryOptions options;
  device::DeviceCaps cpu;
  int threads = 1;

  mutable std::mutex mutex;                                    // over the following
  mutable std::shared_ptr<const device::cuda::Driver> driver;  // found when a GPU is first asked for
  mutable std::shared_ptr<device::cuda::Compiler> compiler;    // made then
  std::map<const void*, ModelMemory> ledger;

  void log(LogLevel level, const std::string& message) const {
    if (options.log) options.log(level, message);
  }
};

}  // namespace pagoda
