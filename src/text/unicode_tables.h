#pragma once

#include <string>
#include <string_view>

namespace pagoda::text {

/// The characters that Unicode 15 and 16 added to a general category ("L", "Lu") or to the script "Han", as the inside
/// of a bracket expression; empty where they added none. PCRE2 10.42 knows Unicode 14.
std::string added_since_unicode_14(std::string_view property);

}  // namespace pagoda::text
