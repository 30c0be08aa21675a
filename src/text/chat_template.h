// Chat templates: Jinja source out of a model file, rendered as Python's jinja2 renders it in `transformers` (an
// immutable sandbox with trim_blocks, lstrip_blocks, loop controls, `tojson`, `raise_exception`, `strftime_now`).
// A template is a program by a stranger: it sees only what is passed in, and every resource it can use is limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"

namespace pagoda::text {

/// What one rendering may use. Breaking a limit is kTemplateLimit.
struct TemplateLimits {
  std::uint64_t steps = 1'000'000;                  ///< nodes evaluated and elements or characters handled in bulk
  std::size_t output_bytes = std::size_t{4} << 20;  ///< of the rendered text; callers pass 4 x context in bytes
  int depth = 100;                                  ///< nested macro calls, recursive loops and nested expressions
  double time_ms = 100;                             ///< of the thread's CPU time
  std::size_t source_bytes = std::size_t{1} << 20;  ///< of the template's text, at parse
};

/// The variables of one rendering. Views must outlive the call.
struct TemplateInput {
  std::string_view messages_json = "[]";           ///< `messages`
  std::optional<std::string_view> tools_json;      ///< `tools`; undefined if absent
  std::optional<std::string_view> documents_json;  ///< `documents`; undefined if absent
  std::string_view arguments_json = "{}";          ///< an object: further variables (`enable_thinking`, ...)
  bool add_generation_prompt = true;
  std::string_view bos_token;
  std::string_view eos_token;
  /// What `strftime_now` shows, in the process's local time; absent: the system clock.
  std::optional<std::int64_t> now_unix_seconds;
};

/// The prompt and which of its bytes the model's author wrote: the template's literals, and the bos and eos token.
/// Bytes that come from messages, tools, documents or arguments are never trusted, however they travelled; only the
/// tokens wholly inside one trusted range may be special. Ranges ascend, do not touch and are not empty.
struct RenderedPrompt {
  std::string text;
  std::vector<ByteRange> trusted;
};

namespace jinja {
struct Program;
}

/// A parsed template; immutable, so that several threads may render it at once.
class ChatTemplate {
 public:
  /// kTemplateFailed with jinja2's words for a syntax error; kTemplateLimit for a source too large or too nested.
  static Result<ChatTemplate> parse(std::string source, const TemplateLimits& limits = {});

  /// kTemplateFailed carries the template's own words (`raise_exception`, an undefined value, a refusal of the
  /// sandbox); kTemplateLimit names the limit; kInvalidArgument names the input (`messages`, ...) that is not JSON.
  Result<RenderedPrompt> render(const TemplateInput& input, const TemplateLimits& limits = {}) const;

  /// Whether the template reads this name as a global variable anywhere, e.g. "enable_thinking".
  bool reads(std::string_view variable) const;

  const std::string& source() const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace pagoda::text
