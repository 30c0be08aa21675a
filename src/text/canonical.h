#pragma once

#include <string>
#include <string_view>

namespace pagoda::text {

/// The text in Unicode's normal form C, as some vocabularies want it before anything else. Bytes that are no UTF-8 stay
/// as they are. Time is O(n log n) whatever the text.
std::string compose_canonical(std::string_view text);

}  // namespace pagoda::text
