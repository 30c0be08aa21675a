// From what is asked to token ids.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "api/model_state.h"
#include "base/result.h"
#include "text/reasoning_splitter.h"

namespace pagoda::api {

/// Errors: kTokenizerMissing, kTemplateMissing, kTemplateFailed, kTemplateLimit, kInvalidArgument.
Result<text::RenderedPrompt> render(const Model::State& model, const Chat& chat);

/// Ids of raw text, with what the model asks for around it if `bos`.
Result<std::vector<std::int32_t>> encode_raw(const Model::State& model, std::string_view text, bool special, bool bos);

/// Of a chat, special tokens come from the template's own text only, and BOS stands once: the template writes it, or it
/// is added where the model wants one.
/// A text that surely has more than `most` tokens is kPromptTooLong, and not read.
Result<std::vector<std::int32_t>> prompt_ids(const Model::State& model, const Request& request,
                                             std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// How the answer to this prompt tells its reasoning: between <think> and </think> where these are tokens of the model
/// and the prompt is a chat. Of others everything is answer.
text::ReasoningSplitter reasoning_of(const Model::State& model, const Request& request,
                                     std::span<const std::int32_t> prompt);

/// The prompt's text, for echo.
Result<std::string> prompt_text(const Model::State& model, const Request& request);

/// The model's tokenizer. Error: kTokenizerMissing, with what the model lacks.
Result<const text::Tokenizer*> tokenizer_of(const Model::State& model);

/// Error: kInvalidArgument for an id outside the vocabulary: the tokenizer's, or without one the model's.
Status check_ids(const Model::State& model, std::span<const std::int32_t> ids);

/// The request's parameters with the model file's in the places left empty. Errors: kInvalidArgument, each naming the
/// parameter, for values outside the ranges that SamplingParams documents.
Result<SamplingParams> resolve_sampling(const Model::State& model, const SamplingParams& asked);

}  // namespace pagoda::api
