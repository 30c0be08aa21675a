#include "io/module_pattern.h"

#include "base/check.h"
#include "base/pcre2_words.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

constexpr std::size_t kMostBytes = 4096;
// Names have some hundred bytes: an expression that does not go back over them again and again takes a few hundred
// steps.
constexpr std::uint32_t kMostSteps = 100'000;
constexpr std::uint32_t kHeapLimitKib = 1024;

}  // namespace

struct ModulePattern::Code {
  Code(std::string_view of, pcre2_code* made)
      : expression(of), code(made), context(pcre2_match_context_create(nullptr)) {
    PAGODA_CHECK(context != nullptr, "no memory for matching");
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, kHeapLimitKib);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }

  std::string expression;
  pcre2_code* code;
  pcre2_match_context* context;
};

ModulePattern::ModulePattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

Result<ModulePattern> ModulePattern::compile(std::string_view expression) {
  if (expression.size() > kMostBytes) {
    return fail(ErrorCode::kConfigUnknown, "an expression for names of modules has {} bytes; Pagoda reads up to {}",
                expression.size(), kMostBytes);
  }
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE, &error, &at, nullptr);
  if (code == nullptr) {
    return fail(ErrorCode::kConfigUnknown, "{} is no expression for names of modules: {} at byte {}",
                quoted(expression), pcre2_words(error), at);
  }
  return ModulePattern(std::make_shared<const Code>(expression, code));
}

Result<bool> ModulePattern::matches(std::string_view module) const {
  pcre2_match_data* const data = pcre2_match_data_create(1, nullptr);
  PAGODA_CHECK(data != nullptr, "no memory for matching");
  const int found =
      pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(module.data()), module.size(), 0, 0, data, code_->context);
  pcre2_match_data_free(data);
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  return fail(ErrorCode::kConfigUnknown, "whether the expression {} names the module {} cannot be told: {}",
              quoted(code_->expression), quoted(module), pcre2_words(found));
}

}  // namespace pagoda::io
