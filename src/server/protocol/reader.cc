#include "server/protocol/reader.h"

#include <algorithm>

namespace pagoda::server {
namespace {

constexpr std::int64_t kCompletionTokens = 16;  // OpenAI's default

ApiError refuse(std::string param, std::string message, std::string code = "invalid_value") {
  return {.status = 400, .message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

ApiError unknown_field(const std::string& name) {
  for (const RefusedField& field : refused_fields()) {
    if (field.name == name) return refuse(name, name + " " + std::string(field.reason), "unsupported_parameter");
  }
  std::string sentence = "the request has a field that this server does not know";
  if (name.size() > kMostNamedBytes) {  // and may be as large as a body
    return refuse("", sentence + format(": its name has {} bytes", name.size()), "unknown_parameter");
  }
  // The name is the client's own; it is given back as JSON text, and not in the sentence.
  return refuse(name, std::move(sentence), "unknown_parameter");
}

std::optional<ApiError> read_fields(const Json& body, const std::vector<Field>& fields, ApiRequest& out) {
  for (const auto& [name, value] : body.members) {
    const auto field = std::ranges::find(fields, name, &Field::name);
    if (field == fields.end()) return unknown_field(name);
    if (value.is_null() && field->nullable) continue;
    const Status status = field->read(value, out);
    if (!status.ok()) {
      const bool whole = status.error().message.starts_with(name);  // the sentence says more than the field's name
      return refuse(name, whole ? status.error().message : name + " " + status.error().message);
    }
  }
  for (const Field& field : fields) {
    if (field.required && body.find(field.name) == nullptr) {
      return refuse(std::string(field.name), std::string(field.name) + " is missing", "missing_parameter");
    }
  }
  return std::nullopt;
}

std::string arguments_json(const ApiRequest& request) {
  JsonWriter out;
  out.open_object();
  for (const auto& [name, value] : request.template_arguments) out.key(name).raw(value);
  out.close_object();
  return out.take();
}

std::optional<ApiError> check_together(const ApiRequest& request) {
  if (request.has_stream_options && !request.stream) {
    return refuse("stream_options", "stream_options is only for stream: true");
  }
  if (request.stream && request.common.prompt_logprobs) {
    return refuse("prompt_logprobs", "prompt_logprobs is not for stream: true");
  }
  if (request.stream && request.common.echo && request.common.sampling.logprobs) {
    return refuse("logprobs", "logprobs of an echoed prompt are not for stream: true");
  }
  if (request.top_logprobs && !request.wants_logprobs) {
    return refuse("top_logprobs", "top_logprobs is only for logprobs: true");
  }
  for (auto at = request.template_arguments.begin(); at != request.template_arguments.end(); ++at) {
    const auto same = [at](const auto& other) { return other.first == at->first; };
    if (std::find_if(std::next(at), request.template_arguments.end(), same) != request.template_arguments.end()) {
      return refuse("chat_template_kwargs", "chat_template_kwargs sets what another field sets too");
    }
  }
  if (request.route == Route::kTokenize && request.prompts.empty() == request.messages_json.empty()) {
    return refuse("prompt", "one of prompt and messages is needed", "missing_parameter");
  }
  return std::nullopt;
}

/// The requests to the model, now that all fields are known.
void build(ApiRequest& out, const ServedModel& served) {
  SamplingParams& sampling = out.common.sampling;
  if (out.wants_logprobs) sampling.logprobs = out.top_logprobs.value_or(0);
  sampling.max_tokens = out.max_tokens;
  if (out.max_completion_tokens) {
    sampling.max_tokens = std::min(*out.max_completion_tokens, out.max_tokens.value_or(*out.max_completion_tokens));
  }
  if (out.route == Route::kCompletions && !sampling.max_tokens) sampling.max_tokens = kCompletionTokens;
  // Both limits hold: one that ends the answer first ends it.
  sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens.value_or(served.context));
  if (!sampling.temperature && !served.declares_temperature) sampling.temperature = 1.f;
  out.common.n = out.n;
  out.asks_prompt_logprobs = out.common.prompt_logprobs.has_value();
  if (out.common.echo && sampling.logprobs && !out.asks_prompt_logprobs) out.common.prompt_logprobs = sampling.logprobs;
  if (!out.messages_json.empty()) {
    out.common.prompt = Chat{.messages_json = out.messages_json, .arguments_json = arguments_json(out)};
    out.requests.push_back(out.common);
  }
  for (auto& prompt : out.prompts) {
    std::visit([&out](auto& kind) { out.common.prompt = std::move(kind); }, prompt);
    out.requests.push_back(out.common);
  }
}

}  // namespace

RequestReader::RequestReader(Route route, const ServedModel& model)
    : route_(route), model_(model), fields_(fields_of(route, model)) {}

std::variant<ApiRequest, ApiError> RequestReader::read(std::string_view body) const {
  const Result<Json> json = parse_json(body);
  if (!json.ok()) return refuse(json.error().param, json.error().message, "invalid_json");
  if (!json->is_object()) return refuse("", "the body must be a JSON object", "invalid_json");
  ApiRequest out{.route = route_};
  if (auto error = read_fields(*json, fields_, out)) return std::move(*error);
  if (out.model && *out.model != model_.name) {
    return ApiError{.status = 404,
                    .message = "this server has no model of that name; /v1/models lists what it has",
                    .param = "model",
                    .code = "model_not_found"};
  }
  if (auto error = check_together(out)) return std::move(*error);
  build(out, model_);
  return out;
}

}  // namespace pagoda::server
