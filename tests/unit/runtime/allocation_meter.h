#pragma once

#include <cstdint>

namespace pagoda::runtime {

/// Calls of operator new in this program so far, by any thread.
std::int64_t num_allocations();

}  // namespace pagoda::runtime
