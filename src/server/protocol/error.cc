#include "server/protocol/error.h"

#include "base/result.h"
#include "server/json/json.h"

namespace pagoda::server {
namespace {

ApiError of_runtime(const Error& error) {
  ApiError out{.status = 500, .message = error.message, .type = "server_error", .param = error.param, .code = {}};
  const auto refuse = [&out](const char* param, const char* code) {
    out.status = 400;
    out.type = "invalid_request_error";
    if (out.param.empty()) out.param = param;
    out.code = code;
  };
  const auto later = [&out](int status, const char* code) {
    out.status = status;
    out.code = code;
    out.retry_after_s = 1;
  };
  switch (error.code) {
    case ErrorCode::kPromptTooLong:
      refuse("prompt", "context_length_exceeded");
      break;
    case ErrorCode::kEmptyPrompt:
      refuse("prompt", "empty_prompt");
      break;
    case ErrorCode::kTemplateFailed:
    case ErrorCode::kTemplateLimit:
      refuse("messages", "template_failed");
      break;
    case ErrorCode::kTemplateMissing:
      refuse("messages", "no_chat_template");
      out.message = "this model has no chat template: /v1/completions takes its prompts as they are";
      break;
    case ErrorCode::kCacheCapacity:
      refuse("prompt", "cache_capacity");
      break;
    case ErrorCode::kQueueFull:
      later(429, "queue_full");
      out.type = "rate_limit_error";
      break;
    case ErrorCode::kCachePressure:
    case ErrorCode::kOutOfMemory:
      later(503, "overloaded");
      break;
    case ErrorCode::kCancelled:
      later(503, "cancelled");
      break;
    case ErrorCode::kDeadlineExceeded:
      out.status = 504;
      out.code = "deadline_exceeded";
      break;
    case ErrorCode::kNonFiniteLogits:
      out.code = "non_finite_logits";
      break;
    default:
      out.code = "internal_error";
      out.message = "the server failed at this request";
  }
  return out;
}

}  // namespace

ApiError api_error(const Error& error) {
  switch (kind_of(error.code)) {
    case ErrorKind::kUsage:
      return {.status = 400,
              .message = error.message,
              .param = error.param == "stop_ids" ? "stop_token_ids" : error.param,
              .code = error.code == ErrorCode::kUnsupportedArgument ? "unsupported_value" : "invalid_value"};
    case ErrorKind::kRuntime:
      return of_runtime(error);
    case ErrorKind::kModel:
      return {.status = 400, .message = "this model has no tokenizer", .code = "no_tokenizer"};
    case ErrorKind::kDevice:
      break;
  }
  return {.status = 503, .message = "the device was lost", .type = "server_error", .code = "device_lost"};
}

std::string to_json(const ApiError& error) {
  JsonWriter out;
  const auto text_or_null = [&out](std::string_view name, const std::string& text) {
    out.key(name);
    text.empty() ? out.null() : out.value(text);
  };
  out.open_object().key("error").open_object().member("message", error.message).member("type", error.type);
  text_or_null("param", error.param);
  text_or_null("code", error.code);
  out.close_object().close_object();
  return out.take();
}

http::Response no_memory() {
  return to_response(api_error(fail(ErrorCode::kOutOfMemory, "the server has no memory for this request now")));
}

http::Response to_response(const ApiError& error) {
  http::Response out{.status = error.status, .headers = {}, .body = to_json(error)};
  if (error.retry_after_s > 0) out.headers.emplace_back("retry-after", std::to_string(error.retry_after_s));
  return out;
}

}  // namespace pagoda::server
