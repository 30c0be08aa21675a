#include "text/canonical.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

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

/// Characters that form C leaves as they are and that never join with what stands before them; the common ones.
bool is_settled(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x0000, 0x02FF}, {0x0400, 0x0482}, {0x05D0, 0x05EA}, {0x0620, 0x064A}, {0x0E01, 0x0E30}, {0x2010, 0x2027},
      {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0x1F300, 0x1FAFF}};
  if (c <= kRanges[0].second) return true;
  return std::ranges::any_of(kRanges, [c](const auto& range) { return c >= range.first && c <= range.second; });
}

void normalize_valid(std::string_view text, NormalForm form, std::string& out) {
  const bool compatible = form == NormalForm::kKC || form == NormalForm::kKD;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    const Utf8Part part = read_utf8(text);
    utf8proc_int32_t pieces[32];
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(part.character), pieces, 32, options, nullptr);
    PAGODA_CHECK(count > 0 && count <= 32, "decomposition of U+{:X}: {}", static_cast<unsigned>(part.character), count);
    characters.insert(characters.end(), pieces, pieces + count);
    text.remove_prefix(part.length);
  }
  order_marks(characters);
  utf8proc_ssize_t size = std::ssize(characters);
  if (form == NormalForm::kC || form == NormalForm::kKC) {
    constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    size = utf8proc_normalize_utf32(characters.data(), size, kCompose);
    PAGODA_CHECK(size >= 0, "composing failed: {}", size);
  }
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<char32_t>(characters[i]));
}

/// Form C: only what is not settled is looked at closely, together with the character before it.
void compose_valid(std::string_view text, std::string& out) {
  std::size_t done = 0;
  std::size_t previous = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Part part = read_utf8(text.substr(at));
    if (is_settled(part.character)) {
      previous = at;
      at += part.length;
      continue;
    }
    out += text.substr(done, previous - done);
    std::size_t end = at;
    while (end < text.size()) {
      const Utf8Part next = read_utf8(text.substr(end));
      if (is_settled(next.character)) break;
      end += next.length;
    }
    normalize_valid(text.substr(previous, end - previous), NormalForm::kC, out);
    done = at = previous = end;
  }
  out += text.substr(done);
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, valid_utf8_length(text));
    if (form == NormalForm::kC) {
      compose_valid(valid, out);
    } else {
      normalize_valid(valid, form, out);
    }
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    const std::size_t bad = read_utf8(text).length;
    out += text.substr(0, bad);
    text.remove_prefix(bad);
  }
  return out;
}

}  // namespace pagoda::text
