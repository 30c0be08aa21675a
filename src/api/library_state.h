#pragma once

#include <map>
#include <mutex>
#include <string>

#include "device/caps.h"
#include "pagoda/library.h"

namespace pagoda {

struct Library::State {
  LibraryOptions options;
  device::DeviceCaps cpu;
  int threads = 1;

  mutable std::mutex mutex;  // over the ledger
  std::map<const void*, ModelMemory> ledger;

  void log(LogLevel level, const std::string& message) const {
    if (options.log) options.log(level, message);
  }
};

}  // namespace pagoda
