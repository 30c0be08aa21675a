#include "server/protocol/fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "server/protocol/messages.h"

namespace pagoda::server {
namespace {

using Setter = std::function<Status(const Json&, ApiRequest&)>;

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostPrompts = 128;
constexpr std::size_t kMostBiases = 1024;

template <class... Args>
Error wrong(fmt::format_string<Args...> text, Args&&... args) {
  return Error{
      .code = ErrorCode::kInvalidArgument, .message = pagoda::format(text, std::forward<Args>(args)...), .param = {}};
}

Error wrong_kind(std::string_view wanted, const Json& json) {
  return wrong("must be {}, not {}", wanted, kind_name(json));
}

// Kinds of values: each makes a schema and a reader out of the same bounds.

struct Kind {
  std::string schema;
  Setter read;
};

struct Range {
  double least = 0;
  double most = 0;
  bool open = false;  ///< without `least`
};

Kind number(Range range, std::function<void(double, ApiRequest&)> set) {
  const std::string bound = format("\"{}\":{}", range.open ? "exclusiveMinimum" : "minimum", range.least);
  return {format(R"({{"type":"number",{},"maximum":{}}})", bound, range.most),
          [range, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is(Json::Kind::kNumber)) return wrong_kind("a number", json);
            const auto value = json.number();
            const bool inside = value && (range.open ? *value > range.least : *value >= range.least);
            if (!inside || *value > range.most) {
              return wrong("must be {} {} and at most {}", range.open ? "over" : "at least", range.least, range.most);
            }
            set(*value, out);
            return Ok{};
          }};
}

Kind integer(std::int64_t least, std::int64_t most, std::function<void(std::int64_t, ApiRequest&)> set) {
  return {format(R"({{"type":"integer","minimum":{},"maximum":{}}})", least, most),
          [=, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is(Json::Kind::kNumber)) return wrong_kind("a whole number", json);
            const auto value = json.integer();
            if (!value || *value < least || *value > most) {
              return wrong("must be a whole number from {} to {}", least, most);
            }
            set(*value, out);
            return Ok{};
          }};
}

Kind boolean(std::function<void(bool, ApiRequest&)> set) {
  return {R"({"type":"boolean"})", [set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_bool()) return wrong_kind("true or false", json);
            set(json.is(Json::Kind::kTrue), out);
            return Ok{};
          }};
}

Kind text(std::function<void(const std::string&, ApiRequest&)> set) {
  return {R"({"type":"string"})", [set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_string()) return wrong_kind("a string", json);
            set(json.text, out);
            return Ok{};
          }};
}

Kind one_of(std::vector<std::string> words, std::function<void(const std::string&, ApiRequest&)> set) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + quoted(word);
  return {format(R"({{"enum":[{}]}})", list),
          [words = std::move(words), list, set = std::move(set)](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_string()) return wrong_kind("a string", json);
            if (std::ranges::find(words, json.text) == words.end()) return wrong("must be one of {}", list);
            set(json.text, out);
            return Ok{};
          }};
}

std::string id_schema(std::int64_t vocabulary) {
  return format(R"({{"type":"integer","minimum":0,"maximum":{}}})", vocabulary - 1);
}

Result<std::int32_t> read_id(const Json& json, std::int64_t vocabulary) {
  const auto id = json.integer();
  if (id && *id >= 0 && *id < vocabulary) return static_cast<std::int32_t>(*id);
  return wrong("must hold token ids from 0 to {}", vocabulary - 1);
}

Result<std::vector<std::int32_t>> read_ids(const Json& json, std::int64_t vocabulary) {
  if (!json.is_array()) return wrong_kind("a list of token ids", json);
  std::vector<std::int32_t> ids;
  ids.reserve(json.items.size());
  for (const Json& item : json.items) ids.push_back(PAGODA_TRY(read_id(item, vocabulary)));
  return ids;
}

Status read_stop(const Json& json, ApiRequest& out) {
  std::vector<std::string>& stops = out.common.sampling.stop;
  const auto add = [&stops](const Json& item) -> Status {
    if (!item.is_string() || item.text.empty()) return wrong("must be a text, or a list of texts, none of them empty");
    stops.push_back(item.text);
    return Ok{};
  };
  if (!json.is_array()) return add(json);
  if (json.items.size() > kMostStops) return wrong("must have at most {} texts", kMostStops);
  for (const Json& item : json.items) PAGODA_TRY(add(item));
  return Ok{};
}

/// A regular expression of the whole numbers from 0 to `most`, as they are usually written.
std::string numbers_up_to(std::int64_t most) {
  const std::string digits = std::to_string(most);
  std::string out = "^(0";
  for (std::size_t n = 1; n < digits.size(); ++n) out += format("|[1-9][0-9]{{{}}}", n - 1);
  for (std::size_t i = 0; i <= digits.size(); ++i) {  // the first i digits equal, the next smaller
    const char least = i == 0 ? '1' : '0';
    if (i == digits.size()) {
      out += "|" + digits;
    } else if (digits[i] > least) {
      out += format("|{}[{}-{}][0-9]{{{}}}", digits.substr(0, i), least, static_cast<char>(digits[i] - 1),
                    digits.size() - i - 1);
    }
  }
  return out + ")$";
}

Kind logit_bias(std::int64_t vocabulary) {
  return {format(R"({{"type":"object","propertyNames":{{"pattern":{}}},"maxProperties":{},)"
                 R"("additionalProperties":{{"type":"number","minimum":-100,"maximum":100}}}})",
                 quoted(numbers_up_to(vocabulary - 1)), kMostBiases),
          [vocabulary](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_object()) return wrong_kind("an object of token ids and numbers", json);
            if (json.members.size() > kMostBiases) return wrong("must name at most {} ids", kMostBiases);
            for (const auto& [key, value] : json.members) {
              const bool plain = key == "0" || (!key.empty() && key.front() >= '1' && key.front() <= '9');
              const auto id = plain ? Json{.kind = Json::Kind::kNumber, .text = key}.integer() : std::nullopt;
              if (!id || *id >= vocabulary || key.find_first_not_of("0123456789") != std::string::npos) {
                return wrong("must name token ids from 0 to {}", vocabulary - 1);
              }
              const auto bias = value.number();
              if (!bias || !(std::abs(*bias) <= 100)) return wrong("must give each id a number from -100 to 100");
              out.common.sampling.logit_bias.emplace_back(static_cast<std::int32_t>(*id), static_cast<float>(*bias));
            }
            return Ok{};
          }};
}

Status read_stream_options(const Json& json, ApiRequest& out) {
  if (!json.is_object()) return wrong_kind("an object", json);
  for (const auto& [name, value] : json.members) {
    if (name != "include_usage") return wrong("knows include_usage alone");
    if (!value.is_bool()) return wrong("must have true or false as include_usage");
    out.include_usage = value.is(Json::Kind::kTrue);
  }
  out.has_stream_options = true;
  return Ok{};
}

Kind prompt(std::int64_t vocabulary) {
  const std::string ids = format(R"({{"type":"array","minItems":1,"items":{}}})", id_schema(vocabulary));
  return {format(R"({{"anyOf":[{{"type":"string","minLength":1}},)"
                 R"({{"type":"array","minItems":1,"maxItems":{0},"items":{{"type":"string","minLength":1}}}},{1},)"
                 R"({{"type":"array","minItems":1,"maxItems":{0},"items":{1}}}]}})",
                 kMostPrompts, ids),
          [vocabulary](const Json& json, ApiRequest& out) -> Status {
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

Field required(std::string_view name, Kind kind, std::string description) {
  return {name, std::move(description), std::move(kind.schema), true, false, std::move(kind.read)};
}
Field optional(std::string_view name, Kind kind, std::string description) {
  return {name, std::move(description), std::move(kind.schema), false, false, std::move(kind.read)};
}
/// OpenAI's own description allows null here.
Field nullable(std::string_view name, Kind kind, std::string description) {
  return {name, std::move(description), std::move(kind.schema), false, true, std::move(kind.read)};
}

/// A number over 0 stays over 0: 1e-158 is a top_p that the description allows, and 0 is none.
float as_float(double value) {
  if (value == 0) return 0;
  constexpr double kLeast = std::numeric_limits<float>::min();
  return static_cast<float>(std::copysign(std::max(std::abs(value), kLeast), value));
}

template <class T>
std::function<void(double, ApiRequest&)> sampling(T SamplingParams::*member) {
  return [member](double value, ApiRequest& out) { out.common.sampling.*member = as_float(value); };
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

void add_sampling(std::vector<Field>& out, const ServedModel& served) {
  out.push_back(nullable("temperature", number({0, 2}, sampling(&SamplingParams::temperature)),
                         "0: always the likeliest token. Left out: what the checkpoint declares, else 1."));
  out.push_back(nullable("top_p", number({0, 1, true}, sampling(&SamplingParams::top_p)),
                         "Draw from the likeliest tokens of this mass."));
  out.push_back(optional("top_k",
                         integer(0, kMostTokens,
                                 [](std::int64_t k, ApiRequest& request) {
                                   request.common.sampling.top_k = static_cast<std::int32_t>(k);
                                 }),
                         "Draw from this many likeliest tokens; 0: all."));
  out.push_back(optional("min_p", number({0, 1}, sampling(&SamplingParams::min_p)),
                         "No token below this share of the likeliest."));
  out.push_back(nullable("presence_penalty", number({-2, 2}, sampling(&SamplingParams::presence_penalty)),
                         "Taken off the logit of each token that the answer has."));
  out.push_back(nullable("frequency_penalty", number({-2, 2}, sampling(&SamplingParams::frequency_penalty)),
                         "Taken off for each time that the answer has it."));
  out.push_back(optional("repetition_penalty", number({0.01, 100}, sampling(&SamplingParams::repetition_penalty)),
                         "Over 1: repeat less, prompt included."));
  out.push_back(nullable("logit_bias", logit_bias(served.vocabulary), "Added to the logits of token ids."));
  out.push_back(nullable("seed",
                         integer(INT64_MIN, INT64_MAX,
                                 [](std::int64_t seed, ApiRequest& request) {
                                   request.common.sampling.seed = static_cast<std::uint64_t>(seed);
                                 }),
                         "Choice i draws from the stream (seed, i). A negative seed is its 64 bits."));
  out.push_back(nullable(
      "stop",
      {format(
           R"({{"anyOf":[{{"type":"string","minLength":1}},{{"type":"array","maxItems":{},"items":{{"type":"string","minLength":1}}}}]}})",
           kMostStops),
       read_stop},
      "The answer ends before the earliest of these texts."));
  out.push_back(
      optional("stop_token_ids",
               {format(R"({{"type":"array","maxItems":{},"items":{}}})", kMostBiases, id_schema(served.vocabulary)),
                [vocabulary = served.vocabulary](const Json& json, ApiRequest& request) -> Status {
                  request.common.sampling.stop_ids = PAGODA_TRY(read_ids(json, vocabulary));
                  if (request.common.sampling.stop_ids.size() <= kMostBiases) return Ok{};
                  return wrong("must have at most {} ids", kMostBiases);
                }},
               "The answer ends at any of these tokens."));
  out.push_back(
      optional("min_tokens",
               integer(0, kMostTokens,
                       [](std::int64_t tokens, ApiRequest& request) { request.common.sampling.min_tokens = tokens; }),
               "The model's end marks count only after this many tokens; a limit that comes first ends the answer all "
               "the same."));
  out.push_back(optional("ignore_eos",
                         boolean([](bool yes, ApiRequest& request) { request.common.sampling.ignore_eos = yes; }),
                         "Go on after the model's end marks."));
  out.push_back(nullable(
      "n", integer(1, 128, [](std::int64_t n, ApiRequest& request) { request.n = static_cast<std::int32_t>(n); }),
      "Choices for each prompt."));
  out.push_back(optional("prompt_logprobs",
                         integer(0, 20,
                                 [](std::int64_t best, ApiRequest& request) {
                                   request.common.prompt_logprobs = static_cast<std::int32_t>(best);
                                 }),
                         "Log-probabilities of the prompt's tokens and of this many best ones; not with stream."));
  out.push_back(
      nullable("stream", boolean([](bool yes, ApiRequest& request) { request.stream = yes; }), "Server-sent events."));
  out.push_back(
      nullable("stream_options",
               {R"({"type":"object","properties":{"include_usage":{"type":"boolean"}},"additionalProperties":false})",
                read_stream_options},
               "Only with stream."));
  out.push_back(optional("return_token_ids", boolean([](bool yes, ApiRequest& request) { request.returns_ids = yes; }),
                         "Give ids beside the texts: token_ids of each choice or of each piece of a stream, and "
                         "prompt_token_ids once."));
  out.push_back(optional("cache_salt",
                         text([](const std::string& salt, ApiRequest& request) { request.common.cache_salt = salt; }),
                         "Cached prefixes are shared only between requests of the same salt."));
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
  out.push_back(required("prompt", prompt(served.vocabulary), "A text, token ids, or a list of either."));
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
