#define FMT_HEADER_ONLY
#include "base/format.h"

#include <fmt/format.h>

namespace pagoda {

std::string format_packed(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

}  // namespace pagoda
