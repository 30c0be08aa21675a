#include "server/protocol/messages.h"

#include <algorithm>
#include <array>

namespace pagoda::server {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"system", "developer", "user", "assistant"};

/// Members that clients send back with an answer of the API, which mean nothing while they hold nothing.
constexpr std::array<std::string_view, 5> kEmptyMembers = {"refusal", "audio", "function_call", "tool_calls",
                                                           "annotations"};

bool holds_nothing(const Json& json) { return json.is_null() || (json.is_array() && json.items.empty()); }

Error wrong(std::size_t index, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "messages[{}]{}", index, what);
}

Result<std::string> read_parts(std::size_t index, const Json& parts) {
  std::string text;
  for (const Json& part : parts.items) {
    if (!part.is_object()) return wrong(index, ".content must be a text or a list of text parts");
    const Json* const type = part.find("type");
    if (type == nullptr || !type->is_string()) return wrong(index, ".content has a part without a type");
    if (type->text != "text") return wrong(index, ".content has a part that is no text: this server reads text alone");
    const Json* const body = part.find("text");
    if (body == nullptr || !body->is_string()) return wrong(index, ".content has a text part without a text");
    if (part.members.size() != 2) return wrong(index, ".content has a part with an unknown member");
    if (&part != &parts.items.front()) text += '\n';
    text += body->text;
  }
  if (parts.items.empty()) return wrong(index, ".content must not be an empty list");
  return text;
}

Result<std::string> read_content(std::size_t index, const Json& content) {
  if (content.is_string()) return content.text;
  if (content.is_array()) return read_parts(index, content);
  return wrong(index, ".content must be a text or a list of text parts");
}

Status write_message(std::size_t index, const Json& message, JsonWriter& out) {
  if (!message.is_object()) return wrong(index, " must be an object with a role and a content");
  const Json* const role = message.find("role");
  if (role == nullptr || !role->is_string()) return wrong(index, ".role must be system, developer, user or assistant");
  if (role->text == "tool" || role->text == "function") {
    return wrong(index, ".role is of tools, which are not served yet");
  }
  if (std::ranges::find(kRoles, role->text) == kRoles.end()) {
    return wrong(index, ".role must be system, developer, user or assistant");
  }
  const bool assistant = role->text == "assistant";
  const Json* const content = message.find("content");
  if (content == nullptr) return wrong(index, ".content is missing");
  out.open_object().member("role", role->text == "developer" ? std::string("system") : role->text);
  out.member("content", PAGODA_TRY(read_content(index, *content)));
  for (const auto& [name, value] : message.members) {
    if (name == "role" || name == "content") continue;
    if (name == "name" && value.is_string()) {
      out.member("name", value.text);
    } else if (name == "reasoning_content" && assistant && value.is_string()) {
      out.member("reasoning_content", value.text);
    } else if (name == "reasoning_content" && assistant && value.is_null()) {
      continue;
    } else if (std::ranges::find(kEmptyMembers, name) == kEmptyMembers.end() || !assistant) {
      return wrong(index,
                   " has a member that is not served, or of a wrong type; known are role, content, name and, of "
                   "the assistant's, reasoning_content");
    } else if (!holds_nothing(value)) {
      return wrong(index, " uses tools, audio or another member that is not served yet");
    }
  }
  out.close_object();
  return Ok{};
}

}  // namespace

Result<std::string> read_messages(const Json& messages) {
  if (!messages.is_array() || messages.items.empty()) {
    return fail(ErrorCode::kInvalidArgument, "messages must be a list of at least one message");
  }
  JsonWriter out;
  out.open_array();
  for (std::size_t i = 0; i < messages.items.size(); ++i) PAGODA_TRY(write_message(i, messages.items[i], out));
  out.close_array();
  return out.take();
}

std::string messages_schema() {
  constexpr std::string_view kContent =
      R"("content":{"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"object",)"
      R"("properties":{"type":{"const":"text"},"text":{"type":"string"}},"required":["type","text"],)"
      R"("additionalProperties":false}}]},"name":{"type":"string"})";
  constexpr std::string_view kEmpty = R"({"anyOf":[{"type":"null"},{"type":"array","maxItems":0}]})";
  std::string assistant = R"("reasoning_content":{"type":["string","null"]})";
  for (const std::string_view name : kEmptyMembers) assistant += format(R"(,"{}":{})", name, kEmpty);
  return format(
      R"({{"type":"array","minItems":1,"items":{{"anyOf":[{{"type":"object","properties":{{"role":{{"enum":["system","developer","user"]}},{}}},"required":["role","content"],"additionalProperties":false}},{{"type":"object","properties":{{"role":{{"const":"assistant"}},{},{}}},"required":["role","content"],"additionalProperties":false}}]}}}})",
      kContent, kContent, assistant);
}

}  // namespace pagoda::server
