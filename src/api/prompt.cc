#include "api/prompt.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/utf8.h"
#include "runtime/device_sampler.h"
#include "text/json_tree.h"
#include "text/stream_decoder.h"

namespace pagoda::api {
namespace {

/// A rendering is bounded by what the context could hold at a generous number of bytes a token, so that the answer to a
/// prompt that is merely too long is the number of its tokens.
constexpr std::int64_t kBytesPerToken = 64;

text::TemplateLimits limits_of(const Model::State& model) {
  text::TemplateLimits limits;
  const std::int64_t context = std::max(model.info.context, model.info.trained_context);
  limits.output_bytes = std::max(limits.output_bytes, static_cast<std::size_t>(context * kBytesPerToken));
  return limits;
}

std::string_view token_text(const text::Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? tokenizer.token_text(*id) : std::string_view{};
}

Error wrong(std::string param, const std::string& sentence) {
  return Error{.code = ErrorCode::kInvalidArgument, .message = sentence, .param = std::move(param)};
}

/// "temperature must be at least 0, not -1".
template <class T>
Status in_range(const std::optional<T>& value, const char* name, bool inside, const char* range) {
  if (!value || (inside && std::isfinite(static_cast<double>(*value)))) return Ok{};
  return wrong(name, pagoda::format("{} must be {}, not {}", name, range, *value));
}

Status check_penalty(float value, const char* name) {
  if (value >= -2 && value <= 2) return Ok{};
  return wrong(name, pagoda::format("{} must be from -2 to 2, not {}", name, value));
}

/// Ids that both the tokenizer and the model know.
std::int64_t vocabulary(const Model::State& model) {
  if (model.tokenizer == nullptr) return model.info.vocabulary;
  return std::min(model.tokenizer->vocabulary_size(), model.info.vocabulary);
}

Status check_bias(const Model::State& model, const SamplingParams& params) {
  if (std::ssize(params.logit_bias) > runtime::kMaxBias) {
    return wrong("logit_bias", pagoda::format("logit_bias names {} ids; at most {} are served",
                                              params.logit_bias.size(), runtime::kMaxBias));
  }
  std::unordered_set<std::int32_t> seen;
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocabulary(model)) {
      return wrong("logit_bias",
                   pagoda::format("logit_bias names the id {}, and the vocabulary has {}", id, vocabulary(model)));
    }
    if (model.tokenizer != nullptr && !model.tokenizer->has_token(id)) {
      return wrong("logit_bias", pagoda::format("logit_bias names the id {}, which no token has", id));
    }
    if (!std::isfinite(bias)) return wrong("logit_bias", pagoda::format("logit_bias of the id {} is not finite", id));
    if (!seen.insert(id).second) return wrong("logit_bias", pagoda::format("logit_bias names the id {} twice", id));
  }
  return Ok{};
}

Status check_sampling(const Model::State& model, const SamplingParams& p) {
  PAGODA_TRY(in_range(p.temperature, "temperature", p.temperature >= 0, "at least 0"));
  PAGODA_TRY(in_range(p.top_k, "top_k", p.top_k >= 0, "at least 0"));
  PAGODA_TRY(in_range(p.top_p, "top_p", p.top_p > 0 && p.top_p <= 1, "over 0 and at most 1"));
  PAGODA_TRY(in_range(p.min_p, "min_p", p.min_p >= 0 && p.min_p <= 1, "from 0 to 1"));
  // A smaller one would carry logits out of float.
  PAGODA_TRY(in_range(p.repetition_penalty, "repetition_penalty",
                      p.repetition_penalty >= 1e-6f && p.repetition_penalty <= 1e6f, "from 1e-6 to 1e6"));
  PAGODA_TRY(check_penalty(p.presence_penalty, "presence_penalty"));
  PAGODA_TRY(check_penalty(p.frequency_penalty, "frequency_penalty"));
  PAGODA_TRY(in_range(p.max_tokens, "max_tokens", p.max_tokens >= 0, "at least 0"));
  if (p.min_tokens < 0)
    return wrong("min_tokens", pagoda::format("min_tokens must be at least 0, not {}", p.min_tokens));
  if (p.max_tokens && p.min_tokens > *p.max_tokens) {
    return wrong("min_tokens", pagoda::format("min_tokens is {}, and max_tokens is {}: it cannot be more", p.min_tokens,
                                              *p.max_tokens));
  }
  PAGODA_TRY(in_range(p.logprobs, "logprobs", p.logprobs >= 0 && p.logprobs <= 20, "from 0 to 20"));
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return wrong("stop", "a stop text must not be empty");
    const Status text = check_utf8(stop, "a stop text");
    if (!text.ok()) return wrong("stop", text.error().message);
  }
  const Status ids = check_ids(model, p.stop_ids);
  if (!ids.ok()) return wrong("stop_ids", ids.error().message);
  return check_bias(model, p);
}

/// Refuses what need not be read to see that it is too long: reading 32 MiB takes seconds.
Status check_length(const Model::State& model, std::string_view text, std::int64_t most) {
  const std::int64_t least = (*PAGODA_TRY(tokenizer_of(model))).least_tokens(text);
  if (least <= most) return Ok{};
  return fail_param(ErrorCode::kPromptTooLong, "prompt",
                    "the prompt has {} bytes and so {} tokens at least, and the context is {}", text.size(), least,
                    most);
}

/// All texts of a conversation, as far as it is one.
std::string contents_of(std::string_view messages_json) {
  std::string out;
  const auto tree = text::JsonTree::parse(messages_json, "messages");
  if (!tree.ok() || !tree->root().is(text::JsonValue::Kind::kArray)) return out;
  for (const text::JsonValue message : tree->root()) {
    if (!message.is(text::JsonValue::Kind::kObject)) continue;
    for (const text::JsonValue member : message) {
      if (member.key() == "content" && member.is(text::JsonValue::Kind::kString)) out += member.string();
    }
  }
  return out;
}

/// A conversation that is much too long breaks a limit of the template before its tokens can be counted: of these there
/// are at least as many as its texts must have.
Error too_long_or(const Error& error, const Model::State& model, const Chat& chat, std::int64_t most) {
  if (error.code != ErrorCode::kTemplateLimit) return error;
  const Status length = check_length(model, contents_of(chat.messages_json), most);
  return length.ok() ? error : length.error();
}

}  // namespace

Result<const text::Tokenizer*> tokenizer_of(const Model::State& model) {
  if (model.tokenizer != nullptr) return model.tokenizer.get();
  return fail(ErrorCode::kTokenizerMissing, "{} has no tokenizer ({}); only token ids can be scored and measured",
              model.info.path,
              model.info.path.ends_with(".gguf") ? "tokenizer.ggml.model and tokenizer.ggml.tokens" : "tokenizer.json");
}

Status check_ids(const Model::State& model, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocabulary(model)) continue;
    return fail(ErrorCode::kInvalidArgument, "the id {} is outside the vocabulary, which has {} tokens", id,
                vocabulary(model));
  }
  return Ok{};
}

Result<text::RenderedPrompt> render(const Model::State& model, const Chat& chat) {
  if (!model.chat_template) {
    return fail(ErrorCode::kTemplateMissing, "{} has no chat template", model.info.path);
  }
  if (!model.chat_template->ok()) return model.chat_template->error();
  const text::Tokenizer& tokenizer = *PAGODA_TRY(tokenizer_of(model));
  text::TemplateInput input;
  input.messages_json = chat.messages_json;
  if (chat.tools_json) input.tools_json = *chat.tools_json;
  if (chat.documents_json) input.documents_json = *chat.documents_json;
  input.arguments_json = chat.arguments_json;
  input.add_generation_prompt = chat.add_generation_prompt;
  input.bos_token = token_text(tokenizer, tokenizer.bos());
  input.eos_token = token_text(tokenizer, tokenizer.eos());
  return model.chat_template->value().render(input, limits_of(model));
}

Result<std::vector<std::int32_t>> encode_raw(const Model::State& model, std::string_view text, bool special, bool bos) {
  const text::Tokenizer& tokenizer = *PAGODA_TRY(tokenizer_of(model));
  PAGODA_TRY(check_utf8(text, "the text"));
  std::vector<std::int32_t> ids =
      PAGODA_TRY(tokenizer.encode(text, special ? text::SpecialTokens::all() : text::SpecialTokens::none()));
  if (bos) {
    ids.insert(ids.begin(), tokenizer.prefix_ids().begin(), tokenizer.prefix_ids().end());
    ids.insert(ids.end(), tokenizer.suffix_ids().begin(), tokenizer.suffix_ids().end());
  }
  PAGODA_TRY(check_ids(model, ids));
  return ids;
}

Result<std::vector<std::int32_t>> prompt_ids(const Model::State& model, const Request& request, std::int64_t most) {
  if (const auto* ids = std::get_if<TokenIds>(&request.prompt)) {
    PAGODA_TRY(check_ids(model, ids->ids));
    return ids->ids;
  }
  if (const auto* raw = std::get_if<RawText>(&request.prompt)) {
    PAGODA_TRY(check_length(model, raw->text, most));
    return encode_raw(model, raw->text, raw->special, raw->bos);
  }
  const text::Tokenizer& tokenizer = *PAGODA_TRY(tokenizer_of(model));
  const Chat& chat = std::get<Chat>(request.prompt);
  const Result<text::RenderedPrompt> rendered = render(model, chat);
  if (!rendered.ok()) return too_long_or(rendered.error(), model, chat, most);
  const text::RenderedPrompt& prompt = *rendered;
  PAGODA_TRY(check_length(model, prompt.text, most));
  std::vector<std::int32_t> ids =
      PAGODA_TRY(tokenizer.encode(prompt.text, text::SpecialTokens::within(prompt.trusted)));
  const auto bos = tokenizer.bos();
  if (tokenizer.wants_bos() && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  PAGODA_TRY(check_ids(model, ids));
  return ids;
}

text::ReasoningSplitter reasoning_of(const Model::State& model, const Request& request,
                                     std::span<const std::int32_t> prompt) {
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  constexpr std::size_t kReach = 4;  // tokens of white space that a template may write behind a mark
  const auto open = model.tokenizer->find(kOpen);
  const auto close = model.tokenizer->find(kClose);
  if (!open || !close || !std::holds_alternative<Chat>(request.prompt)) return {};
  bool inside = false;
  for (std::size_t i = prompt.size(); i > 0 && prompt.size() - i < kReach; --i) {
    if (prompt[i - 1] != *open && prompt[i - 1] != *close) continue;
    inside = prompt[i - 1] == *open;
    break;
  }
  return {std::string(kOpen), std::string(kClose), inside};
}

Result<std::string> prompt_text(const Model::State& model, const Request& request) {
  if (const auto* raw = std::get_if<RawText>(&request.prompt)) return text::repair_utf8(raw->text);
  if (const auto* ids = std::get_if<TokenIds>(&request.prompt)) {
    return text::repair_utf8(PAGODA_TRY(tokenizer_of(model))->decode(ids->ids, false));
  }
  return text::repair_utf8(PAGODA_TRY(render(model, std::get<Chat>(request.prompt))).text);
}

Result<SamplingParams> resolve_sampling(const Model::State& model, const SamplingParams& asked) {
  PAGODA_TRY(check_sampling(model, asked));
  SamplingParams params = asked;
  const SamplingParams& file = model.sampling_defaults;
  if (!params.temperature) params.temperature = file.temperature.value_or(0.f);
  if (!params.top_k) params.top_k = file.top_k;
  if (!params.top_p) params.top_p = file.top_p;
  if (!params.min_p) params.min_p = file.min_p;
  if (!params.repetition_penalty) params.repetition_penalty = file.repetition_penalty;
  return params;
}

}  // namespace pagoda::api
