#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::text {

/// Unicode's normal forms (UAX 15).
enum class NormalForm : std::uint8_t { kC, kD, kKC, kKD };

/// The text in a normal form, as some vocabularies want it before anything else. Bytes that are no UTF-8 stay as they
/// are. Time is O(n log n) whatever the text.
std::string normal_form(std::string_view text, NormalForm form);

inline std::string compose_canonical(std::string_view text) { return normal_form(text, NormalForm::kC); }

}  // namespace pagoda::text
