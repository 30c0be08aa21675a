#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>

#include "base/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json_input.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace pagoda::text {

namespace {

using jinja::Kind;
using jinja::Value;

// A rendering may hold this much per byte of its inputs and output, and never less than the base.
constexpr std::size_t kMemoryBase = std::size_t{64} << 20;
constexpr std::size_t kMemoryFactor = 32;
constexpr std::size_t kProgramMemoryFactor = 256;

constexpr std::array<std::string_view, 6> kReserved = {"messages",  "tools",    "documents", "add_generation_prompt",
                                                       "bos_token", "eos_token"};
/// Roles of the chat protocol: a closed set, so that a message's role, if it is one of these words, is as good as the
/// author's own text. Templates write control tokens with it: `<|{{ message.role }}|>`.
constexpr std::array<std::string_view, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};

Error to_error(const jinja::Fault& fault) {
  const std::string_view what = fault.code == ErrorCode::kTemplateLimit ? "limit exceeded: " : "";
  if (fault.line == 0) return fail(fault.code, "chat template: {}{}", what, fault.words);
  return fail(fault.code, "chat template, line {}: {}{}", fault.line, what, fault.words);
}

Error out_of_memory() { return fail(ErrorCode::kOutOfMemory, "chat template: out of memory"); }

void trust_roles(jinja::Machine& machine, const Value& messages) {
  if (!messages.is(Kind::kList)) return;
  for (const Value& message : messages.as<jinja::Sequence>().items) {
    if (!message.is(Kind::kDict)) continue;
    auto& dict = message.as<jinja::Dict>();
    const Value* role = dict.find("role");
    if (role == nullptr || !role->is(Kind::kString)) continue;
    const auto known = std::find(kRoles.begin(), kRoles.end(), role->bytes());
    if (known != kRoles.end()) *const_cast<Value*>(role) = machine.trusted(*known);
  }
}

Result<Value> read_list(jinja::Interpreter& interpreter, std::string_view json, const char* param) {
  const Value list = PAGODA_TRY(jinja::read_json(interpreter, json, param));
  if (!list.is(Kind::kList)) return fail_param(ErrorCode::kInvalidArgument, param, "{}: not a JSON list", param);
  return list;
}

/// The variables of a rendering, bound in the interpreter.
Status bind(jinja::Interpreter& interpreter, const TemplateInput& input) {
  const Value messages = PAGODA_TRY(read_list(interpreter, input.messages_json, "messages"));
  trust_roles(interpreter, messages);
  interpreter.define("messages", messages);
  if (input.tools_json) {
    interpreter.define("tools", PAGODA_TRY(read_list(interpreter, *input.tools_json, "tools")));
  }
  if (input.documents_json) {
    interpreter.define("documents", PAGODA_TRY(read_list(interpreter, *input.documents_json, "documents")));
  }
  interpreter.define("add_generation_prompt", Value::boolean(input.add_generation_prompt));
  interpreter.define("bos_token", interpreter.trusted(input.bos_token));
  interpreter.define("eos_token", interpreter.trusted(input.eos_token));
  const char* const param = "chat_template_kwargs";
  const Value arguments = PAGODA_TRY(jinja::read_json(interpreter, input.arguments_json, param));
  if (!arguments.is(Kind::kDict)) return fail_param(ErrorCode::kInvalidArgument, param, "{}: not a JSON object", param);
  for (const auto& [name, value] : arguments.as<jinja::Dict>().items) {
    if (std::find(kReserved.begin(), kReserved.end(), name.bytes()) != kReserved.end()) {
      return fail_param(ErrorCode::kInvalidArgument, param, "{}: '{}' cannot be set here", param, name.bytes());
    }
    interpreter.define(name.bytes(), value);
  }
  return Ok{};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return fail(ErrorCode::kTemplateLimit, "chat template: its source has {} bytes; {} are allowed", source.size(),
                limits.source_bytes);
  }
  if (!is_utf8(source)) return fail(ErrorCode::kTemplateFailed, "chat template: its source is not UTF-8");
  try {
    const std::size_t memory = kProgramMemoryFactor * (source.size() + 4096);
    auto program = std::make_shared<jinja::Program>(std::move(source), memory);
    jinja::Parser(*program).parse();
    return ChatTemplate(std::move(program));
  } catch (const jinja::Fault& fault) {
    return to_error(fault);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

Result<RenderedPrompt> ChatTemplate::render(const TemplateInput& input, const TemplateLimits& limits) const {
  for (const auto token : {input.bos_token, input.eos_token}) {
    if (!is_utf8(token)) {
      return fail(ErrorCode::kInvalidArgument, "chat template: the bos or eos token is not UTF-8");
    }
  }
  const std::size_t inputs = input.messages_json.size() + input.arguments_json.size() +
                             (input.tools_json ? input.tools_json->size() : 0) +
                             (input.documents_json ? input.documents_json->size() : 0);
  const jinja::Budget budget{.steps = limits.steps,
                             .output_bytes = limits.output_bytes,
                             .memory_bytes = kMemoryBase + kMemoryFactor * (inputs + limits.output_bytes),
                             .depth = limits.depth,
                             .time_ms = limits.time_ms};
  const std::int64_t now = input.now_unix_seconds.value_or(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  try {
    jinja::Interpreter interpreter(*program_, budget, now);
    PAGODA_TRY(bind(interpreter, input));
    jinja::Text text = interpreter.render();
    return RenderedPrompt{.text = std::move(text.bytes), .trusted = std::move(text.trusted)};
  } catch (const jinja::Fault& fault) {
    return to_error(fault);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

bool ChatTemplate::reads(std::string_view variable) const {
  const auto found = program_->name_ids.find(variable);
  return found != program_->name_ids.end() && program_->loaded.contains(found->second);
}

const std::string& ChatTemplate::source() const { return program_->source; }

}  // namespace pagoda::text
