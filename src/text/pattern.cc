#include "text/pattern.h"

#include <utility>

#include "base/check.h"
#include "base/pcre2_words.h"
#include "base/result.h"
#include "base/utf8.h"
#include "text/pattern_syntax.h"

namespace pagoda::text {
namespace {

// What one match may cost: far above anything our patterns need, since a run is matched without going back over it.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::size_t kMaxPatternBytes = 1 << 16;
constexpr std::size_t kMaxReplacedBytes = std::size_t{1} << 30;

}  // namespace

struct MatchWorkspace::State {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);

  State() {
    PAGODA_CHECK(context != nullptr && data != nullptr, "no memory for matching");
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

MatchWorkspace::MatchWorkspace() : state_(std::make_unique<State>()) {}
MatchWorkspace::MatchWorkspace(MatchWorkspace&&) noexcept = default;
MatchWorkspace& MatchWorkspace::operator=(MatchWorkspace&&) noexcept = default;
MatchWorkspace::~MatchWorkspace() = default;

struct Pattern::Code {
  pcre2_code* code;

  explicit Code(pcre2_code* made) : code(made) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern(std::unique_ptr<const Code> code) : code_(std::move(code)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::compile_translated(std::string_view expression, const std::string& translated) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_MULTILINE, &error, &at, nullptr);
  if (code == nullptr) {
    return fail(ErrorCode::kTokenizerUnsupported, "the expression \"{}\" cannot be compiled: {}", expression,
                pcre2_words(error));
  }
  // Without executable memory this fails, and matching is done without it.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Pattern(std::make_unique<const Code>(code));
}

Result<Pattern> Pattern::compile(std::string_view expression) {
  if (expression.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kTokenizerUnsupported, "an expression has {} bytes; at most {} are allowed",
                expression.size(), kMaxPatternBytes);
  }
  return compile_translated(expression, PAGODA_TRY(translate_pattern(expression)));
}

Result<Pattern> Pattern::literal(std::string_view literal) {
  if (literal.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kTokenizerUnsupported, "a pattern has {} bytes; at most {} are allowed", literal.size(),
                kMaxPatternBytes);
  }
  return compile_translated(literal, literal_pattern(literal));
}

Result<ByteRange> Pattern::find(std::string_view text, std::size_t from, MatchWorkspace& work) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  MatchWorkspace::State& state = *work.state_;
  int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state.data,
                        state.context);
  }
  if (found == PCRE2_ERROR_NOMATCH) return ByteRange{npos, npos};
  if (found < 0) {
    return fail(ErrorCode::kInvalidArgument, "the text cannot be cut into words: matching fails at byte {}: {}", from,
                pcre2_words(found));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data);
  return ByteRange{bounds[0], bounds[1]};
}

Status Pattern::find_all(std::string_view text, MatchWorkspace& work, std::vector<ByteRange>& out) const {
  std::size_t from = 0;
  std::size_t last = npos;
  while (from <= text.size()) {
    const ByteRange match = PAGODA_TRY(find(text, from, work));
    if (match.begin == npos) break;
    const bool repeated = match.begin == match.end && match.end == last;
    if (!repeated) {
      out.push_back(match);
      last = match.end;
      from = match.end;
      continue;
    }
    if (from >= text.size()) break;
    from += read_utf8(text.substr(from)).length;
  }
  return Ok{};
}

Result<std::string> Pattern::replace(std::string_view text, std::string_view content, MatchWorkspace& work) const {
  std::vector<ByteRange> matches;
  PAGODA_TRY(find_all(text, work, matches));
  std::string out;
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(content);
    if (out.size() > kMaxReplacedBytes) {
      return fail(ErrorCode::kInvalidArgument, "replacing makes the text larger than {} bytes", kMaxReplacedBytes);
    }
    done = match.end;
  }
  out.append(text.substr(done));
  return out;
}

}  // namespace pagoda::text
