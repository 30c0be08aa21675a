#include "server/protocol/fields.h"

#include <algorithm>
#include <array>

#include "server/protocol/kinds.h"
#include "server/protocol/messages.h"
#include "server/protocol/sampling_fields.h"

namespace pagoda::server {
namespace {

constexpr std::size_t kMostPrompts = 128;

Kind prompt(const ServedModel& served) {
  const std::string ids = format(R"({{"type":"array","minItems":1,"items":{}}})", id_schema(served.vocabulary));
  const std::string text = format(R"({{"type":"string","minLength":{}}})", served.adds_tokens ? 0 : 1);
  return {format(R"({{"anyOf":[{2},{{"type":"array","minItems":1,"maxItems":{0},"items":{2}}},{1},)"
                 R"({{"type":"array","minItems":1,"maxItems":{0},"items":{1}}}]}})",
                 kMostPrompts, ids, text),
          [vocabulary = served.vocabulary](const Json& json, ApiRequest& out) -> Status {
            constexpr const char* kWanted =
                "a text, a list of token ids, or a list of such: all texts or all ids, and not empty";
            if (json.is_string()) {
              out.prompts.emplace_back(RawText{.text = json.text, .special = true});
              return Ok{};
            }
            if (!json.is_array() || json.items.empty()) return wrong("must be {}", kWanted);
            const Json::Kind kind = json.items.front().kind;
            if (kind == Json::Kind::kNumber) {
              out.prompts.emplace_back(TokenIds{.ids = PAGODA_TRY(read_ids(json, vocabulary))});
              return Ok{};
            }
            if (json.items.size() > kMostPrompts) return wrong("must have at most {} prompts", kMostPrompts);
            for (const Json& item : json.items) {
              if (!item.is(kind)) return wrong("must be {}", kWanted);
              if (item.is_string()) {
                out.prompts.emplace_back(RawText{.text = item.text, .special = true});
              } else if (item.is_array() && !item.items.empty()) {
                out.prompts.emplace_back(TokenIds{.ids = PAGODA_TRY(read_ids(item, vocabulary))});
              } else {
                return wrong("must be {}", kWanted);
              }
            }
            return Ok{};
          }};
}

/// What the server itself gives to a template; a request must not replace it.
constexpr std::array<std::string_view, 6> kOwnVariables = {"messages",  "tools",     "documents",
                                                           "bos_token", "eos_token", "add_generation_prompt"};

Kind template_arguments(const ServedModel& served) {
  std::string known;
  if (served.reads_enable_thinking) known = R"("enable_thinking":{"type":"boolean"})";
  if (served.reads_reasoning_effort)
    known += (known.empty() ? "" : ",") + std::string(R"("reasoning_effort":{"type":"string"})");
  return {format(R"({{"type":"object","properties":{{{}}},"additionalProperties":false}})", known),
          [model = served.model](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_object()) return wrong_kind("an object", json);
            for (const auto& [name, value] : json.members) {
              if (std::ranges::find(kOwnVariables, name) != kOwnVariables.end()) {
                return wrong("must not set what the server itself gives to the template");
              }
              if (!model.template_reads(name)) return wrong("has a name that this model's chat template does not read");
              out.template_arguments.emplace_back(name, to_text(value));
            }
            return Ok{};
          }};
}

Kind nothing_but(std::string schema, std::string wanted, std::function<bool(const Json&)> fits) {
  return {std::move(schema),
          [wanted = std::move(wanted), fits = std::move(fits)](const Json& json, ApiRequest&) -> Status {
            if (fits(json)) return Ok{};
            return wrong("must be {}: more is not served yet", wanted);
          }};
}

Kind metadata() {
  return {R"({"type":"object","additionalProperties":{"type":"string"}})", [](const Json& json, ApiRequest&) -> Status {
            if (!json.is_object()) return wrong_kind("an object of strings", json);
            for (const auto& [name, value] : json.members) {
              if (!value.is_string()) return wrong("must be an object of strings");
            }
            return Ok{};
          }};
}

Kind model_name(const ServedModel& served) {
  Kind kind = text([](const std::string& name, ApiRequest& out) { out.model = name; });
  kind.schema = format(R"({{"const":{}}})", quoted(served.name));  // another name is 404
  return kind;
}

Kind messages() {
  return {messages_schema(), [](const Json& json, ApiRequest& out) -> Status {
            out.messages_json = PAGODA_TRY(read_messages(json));
            return Ok{};
          }};
}

void add_without_effect(std::vector<Field>& out, bool chat) {
  const auto taken = [](const std::string&, ApiRequest&) {};
  constexpr const char* kNone = "Accepted without effect.";
  out.push_back(optional("user", text(taken), kNone));
  out.push_back(nullable("metadata", metadata(), kNone));
  out.push_back(nullable("store", boolean([](bool, ApiRequest&) {}), kNone));
  out.push_back(nullable("service_tier", text(taken), kNone));
  out.push_back(optional("safety_identifier", text(taken), kNone));
  out.push_back(optional("prompt_cache_key", text(taken), kNone));
  if (!chat) return;
  out.push_back(optional("parallel_tool_calls", boolean([](bool, ApiRequest&) {}), kNone));
  out.push_back(optional("tools",
                         nothing_but(R"({"type":"array","maxItems":0})", "an empty list",
                                     [](const Json& json) { return json.is_array() && json.items.empty(); }),
                         kNone));
  out.push_back(optional("tool_choice",
                         nothing_but(R"({"const":"none"})", "\"none\"",
                                     [](const Json& json) { return json.is_string() && json.text == "none"; }),
                         kNone));
  out.push_back(optional(
      "response_format",
      nothing_but(
          R"({"type":"object","properties":{"type":{"const":"text"}},"required":["type"],"additionalProperties":false})",
          R"({"type": "text"})",
          [](const Json& json) {
            const Json* const type = json.find("type");
            return json.members.size() == 1 && type != nullptr && type->is_string() && type->text == "text";
          }),
      kNone));
}

void add_template(std::vector<Field>& out, const ServedModel& served) {
  out.push_back(optional("chat_template_kwargs", template_arguments(served),
                         "Further variables of the chat template, of those that it reads."));
  if (served.reads_enable_thinking) {
    out.push_back(optional("enable_thinking", boolean([](bool yes, ApiRequest& request) {
                             request.template_arguments.emplace_back("enable_thinking", yes ? "true" : "false");
                           }),
                           "Whether the model may think first."));
  }
  if (served.reads_reasoning_effort) {
    out.push_back(nullable("reasoning_effort",
                           one_of({"none", "minimal", "low", "medium", "high", "xhigh"},
                                  [](const std::string& effort, ApiRequest& request) {
                                    request.template_arguments.emplace_back("reasoning_effort", quoted(effort));
                                  }),
                           "How long the model may think."));
  }
}

std::vector<Field> chat_fields(const ServedModel& served) {
  std::vector<Field> out;
  out.push_back(required("model", model_name(served), "The served model."));
  out.push_back(required("messages", messages(), "The conversation so far."));
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    const bool old = std::string_view(name) == "max_tokens";
    out.push_back(nullable(name,
                           integer(1, kMostTokens,
                                   [old](std::int64_t tokens, ApiRequest& request) {
                                     (old ? request.max_tokens : request.max_completion_tokens) = tokens;
                                   }),
                           old ? "The older name of max_completion_tokens; of two the smaller counts."
                               : "Tokens of an answer at most. Left out: to the context's end."));
  }
  add_sampling(out, served);
  out.push_back(nullable("logprobs", boolean([](bool yes, ApiRequest& request) { request.wants_logprobs = yes; }),
                         "Give the log-probability of each token."));
  out.push_back(nullable(
      "top_logprobs",
      integer(0, 20,
              [](std::int64_t best, ApiRequest& request) { request.top_logprobs = static_cast<std::int32_t>(best); }),
      "And of this many best ones at its place; only with logprobs."));
  add_template(out, served);
  add_without_effect(out, true);
  return out;
}

std::vector<Field> completion_fields(const ServedModel& served) {
  std::vector<Field> out;
  out.push_back(required("model", model_name(served), "The served model."));
  out.push_back(required("prompt", prompt(served), "A text, token ids, or a list of either."));
  out.push_back(
      nullable("max_tokens",
               integer(0, kMostTokens, [](std::int64_t tokens, ApiRequest& request) { request.max_tokens = tokens; }),
               "Tokens of an answer at most. Left out: 16."));
  add_sampling(out, served);
  out.push_back(nullable("logprobs",
                         integer(0, 20,
                                 [](std::int64_t best, ApiRequest& request) {
                                   request.common.sampling.logprobs = static_cast<std::int32_t>(best);
                                 }),
                         "Give the log-probability of each token, and of this many best ones at its place."));
  out.push_back(nullable("echo", boolean([](bool yes, ApiRequest& request) { request.common.echo = yes; }),
                         "The answer begins with the prompt."));
  add_without_effect(out, false);
  return out;
}

std::vector<Field> tokenize_fields(const ServedModel& served) {
  std::vector<Field> out;
  out.push_back(optional("model", model_name(served), "The served model."));
  out.push_back(optional("prompt", text([](const std::string& prompt, ApiRequest& request) {
                           request.prompts.emplace_back(RawText{.text = prompt, .special = true});
                         }),
                         "A text, as /v1/completions takes it."));
  if (served.has_template) {
    out.push_back(optional("messages", messages(), "A conversation, as /v1/chat/completions takes it."));
    add_template(out, served);
  }
  return out;
}

std::vector<Field> detokenize_fields(const ServedModel& served) {
  std::vector<Field> out;
  out.push_back(optional("model", model_name(served), "The served model."));
  out.push_back(required("tokens",
                         {format(R"({{"type":"array","items":{}}})", id_schema(served.vocabulary)),
                          [vocabulary = served.vocabulary](const Json& json, ApiRequest& request) -> Status {
                            request.tokens = PAGODA_TRY(read_ids(json, vocabulary));
                            return Ok{};
                          }},
                         "Token ids."));
  return out;
}

constexpr const char* kNotYet = "is not served yet";

constexpr RefusedField kRefused[] = {
    {"suffix", "is not served: a text can be gone on with at its end alone"},
    {"best_of", "is not served: n choices are all given"},
    {"tools", kNotYet},
    {"tool_choice", kNotYet},
    {"functions", kNotYet},
    {"function_call", kNotYet},
    {"response_format", kNotYet},
    {"audio", kNotYet},
    {"modalities", kNotYet},
    {"prediction", kNotYet},
    {"web_search_options", kNotYet},
    {"enable_thinking", "is not read by this model's chat template"},
    {"reasoning_effort", "is not read by this model's chat template"},
};

}  // namespace

std::vector<Field> fields_of(Route route, const ServedModel& served) {
  switch (route) {
    case Route::kChat:
      return chat_fields(served);
    case Route::kCompletions:
      return completion_fields(served);
    case Route::kTokenize:
      return tokenize_fields(served);
    case Route::kDetokenize:
      return detokenize_fields(served);
  }
  return {};
}

std::span<const RefusedField> refused_fields() { return kRefused; }

}  // namespace pagoda::server
