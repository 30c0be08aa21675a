#include "apps/kernel_pack.h"

namespace pagoda::apps {

std::span<const std::byte> kernel_pack() { return {}; }

}  // namespace pagoda::apps
