#include "text/canonical.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "text/utf8.h"

namespace pagoda::text {
namespace {

/// Puts each run of combining marks in the order of their classes. utf8proc's own way is quadratic in a run's length.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto class_of = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  auto at = characters.begin();
  while (at != characters.end()) {
    const auto end = std::find_if(at, characters.end(), [&](auto c) { return class_of(c) == 0; });
    std::stable_sort(at, end, [&](auto a, auto b) { return class_of(a) < class_of(b); });
    at = std::find_if(end, characters.end(), [&](auto c) { return class_of(c) != 0; });
  }
}

void compose_valid(std::string_view text, std::string& out) {
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  while (!text.empty()) {
    const Utf8Part part = read_utf8(text);
    utf8proc_int32_t pieces[32];
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(part.character), pieces, 32, kOptions, nullptr);
    PAGODA_CHECK(count > 0 && count <= 32, "decomposition of U+{:X}: {}", static_cast<unsigned>(part.character), count);
    characters.insert(characters.end(), pieces, pieces + count);
    text.remove_prefix(part.length);
  }
  order_marks(characters);
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(characters.data(), std::ssize(characters), kCompose);
  PAGODA_CHECK(size >= 0, "composing failed: {}", size);
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<char32_t>(characters[i]));
}

}  // namespace

std::string compose_canonical(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_length(text);
    compose_valid(text.substr(0, valid), out);
    text.remove_prefix(valid);
    if (text.empty()) break;
    const std::size_t bad = read_utf8(text).length;
    out += text.substr(0, bad);
    text.remove_prefix(bad);
  }
  return out;
}

}  // namespace pagoda::text
