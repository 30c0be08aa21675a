#pragma once

#include <cstddef>
#include <span>

namespace pagoda::apps {

/// The kernels that travel with this program: all that a release is packed with; none in other builds.
std::span<const std::byte> kernel_pack();

}  // namespace pagoda::apps
