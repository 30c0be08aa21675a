#pragma once

#include <string_view>

namespace pagoda::text {

/// The characters that Unicode 15 added to a property ("L", "Lu", "Han"), as the inside of a bracket expression; empty
/// where it added none. PCRE2 10.42 knows Unicode 14.
std::string_view added_in_unicode_15(std::string_view property);

}  // namespace pagoda::text
