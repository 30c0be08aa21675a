// Regular expressions as tokenizers' files write them, in Oniguruma's syntax, rewritten for PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "pagoda/types.h"

namespace pagoda::text {

/// The pattern for PCRE2 (with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE) that matches what `pattern` matches in
/// Oniguruma. Classes are written out as Unicode 16 has them. Errors: kTokenizerUnsupported for what has no
/// counterpart.
Result<std::string> translate_pattern(std::string_view pattern);

/// The pattern that matches `literal` itself.
std::string literal_pattern(std::string_view literal);

}  // namespace pagoda::text
