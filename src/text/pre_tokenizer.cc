#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

#include "base/result.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace pagoda::text {
namespace {

// White_Space of Unicode 15. PCRE2's own \s also takes U+180E, which has not been a space since Unicode 6.3.
constexpr std::string_view kSpaceRanges =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Writes out what stands after a backslash as ranges: `s`, `S`, and `p{…}` with the characters that PCRE2 does not
/// know.
std::string expand_class(std::string_view name, bool in_brackets) {
  if (name == "s" || name == "S") {
    if (in_brackets) return std::string(kSpaceRanges);
    return (name == "s" ? "[" : "[^") + std::string(kSpaceRanges) + "]";
  }
  std::string out = "\\" + std::string(name);
  if (!name.starts_with("p{")) return out;
  const std::string_view added = added_in_unicode_15(name.substr(2, name.size() - 3));
  if (added.empty()) return out;
  out += added;
  return in_brackets ? out : "[" + out + "]";
}

/// A pattern with its classes as Unicode 15 has them.
std::string expand_classes(std::string_view pattern) {
  std::string out;
  bool in_brackets = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      const bool named = pattern.substr(i + 1).starts_with("p{");
      const std::size_t length = named ? pattern.find('}', i) - i : 1;
      out += expand_class(pattern.substr(i + 1, length), in_brackets);
      i += length;
      continue;
    }
    if (pattern[i] == '[') in_brackets = true;
    if (pattern[i] == ']') in_brackets = false;
    out += pattern[i];
  }
  return out;
}

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// What one match may cost: far above anything our patterns need, since a run is matched without going back over it.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;

using Pieces = std::vector<std::string_view>;

/// Adds text[begin, end) unless it is empty.
void add_piece(Pieces& out, std::string_view text, std::size_t begin, std::size_t end) {
  if (begin < end) out.push_back(text.substr(begin, end - begin));
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

/// Byte-level text writes each byte as a character, and these as digits: 0-9 and, of bytes inside characters, those
/// that become ² ³ ¹ ¼ ½ ¾. A vocabulary that splits digits after byte mapping splits these too.
bool is_byte_digit(char c) {
  constexpr std::string_view kOthers = "\xB2\xB3\xB9\xBC\xBD\xBE";
  return is_ascii_digit(c) || kOthers.find(c) != std::string_view::npos;
}

void cut_byte_digits(std::string_view text, Pieces& out) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    if (i < text.size() && is_byte_digit(text[i]) == is_byte_digit(text[i - 1])) continue;
    add_piece(out, text, begin, i);
    begin = i;
  }
}

/// Cuts a run of digits into threes from the right.
void cut_digit_run(std::string_view digits, Pieces& out) {
  std::size_t left = 0;
  for (std::size_t i = 0; i < digits.size(); i += read_utf8(digits.substr(i)).length) ++left;
  while (left > 0) {
    const std::size_t count = left % 3 == 0 ? 3 : left % 3;
    std::size_t end = 0;
    for (std::size_t i = 0; i < count; ++i) end += read_utf8(digits.substr(end)).length;
    out.push_back(digits.substr(0, end));
    digits.remove_prefix(end);
    left -= count;
  }
}

}  // namespace

/// One compiled cut.
struct PreTokenizer::Step {
  Cut::Kind kind = Cut::Kind::kPattern;
  std::unique_ptr<pcre2_code, CodeDeleter> code;

  Status apply_pattern(pcre2_match_context* context, std::string_view text, Pieces& out) const;
};

namespace {

Result<std::unique_ptr<pcre2_code, CodeDeleter>> compile(std::string_view pattern) {
  const std::string expanded = expand_classes(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_DOLLAR_ENDONLY, &error, &at, nullptr);
  if (code == nullptr) {
    return fail(ErrorCode::kInternal, "the pre-tokenizer pattern \"{}\" does not compile: error {} at {}", pattern,
                error, at);
  }
  // Without executable memory this fails, and matching is done without it.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return std::unique_ptr<pcre2_code, CodeDeleter>(code);
}

}  // namespace

Status PreTokenizer::Step::apply_pattern(pcre2_match_context* context, std::string_view text, Pieces& out) const {
  const std::unique_ptr<pcre2_match_data, MatchDeleter> data(pcre2_match_data_create(1, nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0;
  std::size_t from = 0;
  while (from < text.size()) {
    int found = pcre2_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found =
          pcre2_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), context);
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "the text cannot be cut into words: matching fails with error {} at byte {}", found, from);
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
    add_piece(out, text, done, bounds[0]);
    if (kind == Cut::Kind::kPattern) {
      add_piece(out, text, bounds[0], bounds[1]);
    } else {
      cut_digit_run(text.substr(bounds[0], bounds[1] - bounds[0]), out);
    }
    done = bounds[1];
    from = bounds[1] > bounds[0] ? bounds[1] : bounds[1] + read_utf8(text.substr(bounds[1])).length;
  }
  add_piece(out, text, done, text.size());
  return Ok{};
}

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(const PreTokenizerRules& rules) {
  std::vector<Step> steps;
  for (const Cut& cut : rules.cuts) {
    Step& step = steps.emplace_back();
    step.kind = cut.kind;
    if (cut.kind == Cut::Kind::kPattern) step.code = PAGODA_TRY(compile(cut.pattern));
    if (cut.kind == Cut::Kind::kDigitGroups) step.code = PAGODA_TRY(compile(R"(\d++)"));
    if (cut.kind == Cut::Kind::kDigitGroupsWord) step.code = PAGODA_TRY(compile(R"(\d++(?!\w))"));
  }
  return PreTokenizer(std::move(steps));
}

Result<std::vector<std::string_view>> PreTokenizer::split(std::string_view text) const {
  const std::unique_ptr<pcre2_match_context, ContextDeleter> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  Pieces whole, pieces, cut;
  while (!text.empty()) {
    pieces.assign(1, text.substr(0, valid_utf8_length(text)));
    if (pieces[0].empty()) pieces.clear();
    for (const Step& step : steps_) {
      cut.clear();
      for (const std::string_view piece : pieces) {
        if (step.kind == Cut::Kind::kByteDigits) {
          cut_byte_digits(piece, cut);
        } else {
          PAGODA_TRY(step.apply_pattern(context.get(), piece, cut));
        }
      }
      pieces.swap(cut);
    }
    whole.insert(whole.end(), pieces.begin(), pieces.end());
    text.remove_prefix(valid_utf8_length(text));
    if (text.empty()) break;
    const std::size_t bad = read_utf8(text).length;
    whole.push_back(text.substr(0, bad));
    text.remove_prefix(bad);
  }
  return whole;
}

}  // namespace pagoda::text
