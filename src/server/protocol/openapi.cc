#include "server/protocol/openapi.h"

#include "pagoda/library.h"
#include "server/json/json.h"
#include "server/protocol/fields.h"

namespace pagoda::server {
namespace {

/// The schema with null allowed too.
std::string or_null(const std::string& schema) { return format(R"({{"anyOf":[{},{{"type":"null"}}]}})", schema); }

/// What the reader checks between fields.
std::string rules_of(Route route) {
  const std::string needs_stream =
      R"({"if":{"required":["stream_options"],"properties":{"stream_options":{"type":"object"}}},)"
      R"("then":{"required":["stream"],"properties":{"stream":{"const":true}}}})";
  const std::string whole_prompt_logprobs =
      R"({"if":{"required":["prompt_logprobs"]},"then":{"properties":{"stream":{"enum":[false,null]}}}})";
  switch (route) {
    case Route::kChat:
      return needs_stream + "," + whole_prompt_logprobs +
             R"(,{"if":{"required":["top_logprobs"],"properties":{"top_logprobs":{"type":"integer"}}},)"
             R"("then":{"required":["logprobs"],"properties":{"logprobs":{"const":true}}}})";
    case Route::kCompletions:
      return needs_stream + "," + whole_prompt_logprobs +
             R"(,{"if":{"required":["echo","logprobs"],"properties":{"echo":{"const":true},"logprobs":{"type":"integer"}}},)"
             R"("then":{"properties":{"stream":{"enum":[false,null]}}}})";
    case Route::kTokenize:
      return R"({"oneOf":[{"required":["prompt"]},{"required":["messages"]}]})";
    case Route::kDetokenize:
      return {};
  }
  return {};
}

void write_body_schema(Route route, const ServedModel& model, JsonWriter& out) {
  out.open_object().member("type", "object").key("properties").open_object();
  const std::vector<Field> fields = fields_of(route, model);
  for (const Field& field : fields) {
    std::string schema = field.nullable ? or_null(field.schema) : field.schema;
    schema.insert(1, "\"description\":" + quoted(field.description) + ",");
    out.key(field.name).raw(schema);
  }
  out.close_object().key("required").open_array();
  for (const Field& field : fields) {
    if (field.required) out.value(field.name);
  }
  out.close_array().member("additionalProperties", false);
  if (const std::string rules = rules_of(route); !rules.empty()) out.key("allOf").raw("[" + rules + "]");
  out.close_object();
}

struct Operation {
  const char* path;
  const char* id;
  const char* summary;
  std::optional<Route> body = {};
  const char* type = "application/json";
  bool open = false;
};

constexpr const char* kErrorSchema =
    R"({"type":"object","properties":{"error":{"type":"object","properties":{"message":{"type":"string"},)"
    R"("type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":["string","null"]}},)"
    R"("required":["message","type","param","code"]}},"required":["error"]})";

void write_error(int status, const char* description, JsonWriter& out) {
  out.key(std::to_string(status)).open_object().member("description", description);
  out.key("content").open_object().key("application/json").open_object();
  out.key("schema").raw(R"({"$ref":"#/components/schemas/Error"})");
  out.close_object().close_object().close_object();
}

void write_operation(const Operation& operation, const ServedModel& model, bool needs_key, JsonWriter& out) {
  out.open_object().member("operationId", operation.id).member("summary", operation.summary);
  if (std::string_view(operation.path).ends_with("}")) {
    out.key("parameters")
        .raw(
            format(R"([{{"name":"model","in":"path","required":true,"schema":{{"enum":[{}]}}}}])", quoted(model.name)));
  }
  if (needs_key && !operation.open) out.key("security").raw(R"([{"key":[]}])");
  if (operation.body) {
    out.key("requestBody").open_object().member("required", true).key("content").open_object();
    out.key("application/json").open_object().key("schema");
    write_body_schema(*operation.body, model, out);
    out.close_object().close_object().close_object();
  }
  out.key("responses").open_object();
  out.key("200").open_object().member("description", "The answer.").key("content").open_object();
  out.key(operation.type).raw("{}");
  const bool streams = operation.body == Route::kChat || operation.body == Route::kCompletions;
  if (streams) out.key("text/event-stream").raw("{}");
  out.close_object().close_object();
  if (operation.body) {
    write_error(400, "A field is wrong: `param` names it.", out);
    write_error(413, "The body is too large.", out);
    write_error(415, "The body is not declared as plain JSON.", out);
  }
  if (needs_key && !operation.open) write_error(401, "The key is missing or wrong.", out);
  if (operation.body || std::string_view(operation.path).ends_with("}")) {
    write_error(404, "There is no model of that name.", out);
  }
  if (streams) write_error(429, "The queue is full; Retry-After says when to try again.", out);
  if (operation.body || operation.open) write_error(503, "Not now; Retry-After says when to try again.", out);
  out.close_object().close_object();
}

}  // namespace

std::string openapi_json(const ServedModel& model, bool needs_key) {
  constexpr Operation kOperations[] = {
      {"/v1/completions", "createCompletion", "Go on from a text.", Route::kCompletions},
      {"/v1/models", "listModels", "The served model."},
      {"/v1/models/{model}", "retrieveModel", "The served model."},
      {"/tokenize", "tokenize", "The ids of a prompt.", Route::kTokenize},
      {"/detokenize", "detokenize", "The text of ids.", Route::kDetokenize},
      {"/health", "health", "Whether the engine gets on.", {}, "application/json", true},
      {"/ready", "ready", "Whether new requests are taken.", {}, "application/json", true},
      {"/metrics", "metrics", "Prometheus metrics.", {}, "text/plain"},
      {"/version", "version", "The version of this server."},
      {"/openapi.json", "openapi", "This description."},
  };
  constexpr Operation kChat{"/v1/chat/completions", "createChatCompletion", "Answer a conversation.", Route::kChat};
  JsonWriter out;
  out.open_object().member("openapi", "3.1.0");
  out.key("info").open_object().member("title", "Pagoda").member("version", Library::version()).close_object();
  out.key("paths").open_object();
  const auto add = [&](const Operation& operation) {
    out.key(operation.path).open_object().key(operation.body ? "post" : "get");
    write_operation(operation, model, needs_key, out);
    out.close_object();
  };
  if (model.has_template) add(kChat);
  for (const Operation& operation : kOperations) add(operation);
  out.close_object().key("components").open_object();
  out.key("schemas").open_object().key("Error").raw(kErrorSchema).close_object();
  if (needs_key) out.key("securitySchemes").raw(R"({"key":{"type":"http","scheme":"bearer"}})");
  out.close_object().close_object();
  return out.take();
}

std::string model_json(const ServedModel& model, std::int64_t created) {
  JsonWriter out;
  out.open_object().member("id", model.name).member("object", "model").member("created", created);
  out.member("owned_by", "pagoda").member("max_model_len", model.context).close_object();
  return out.take();
}

}  // namespace pagoda::server
