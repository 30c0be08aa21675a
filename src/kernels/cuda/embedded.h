#pragma once

#include <span>

#include "device/compile_unit.h"

namespace pagoda::kernels {

/// Every device source and every header that device sources may include, by its path below src/.
std::span<const device::EmbeddedSource> embedded_sources();

}  // namespace pagoda::kernels
