// From what the model does to what the API shows: one writer a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pagoda/generation.h"
#include "server/protocol/request.h"

namespace pagoda::server {

/// What stands in every object of an answer.
struct AnswerHead {
  std::string id;  ///< "chatcmpl-...", "cmpl-..."
  std::int64_t created = 0;
  std::string model;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  /// What can be sent as soon as the answer begins.
  virtual std::string begin() { return {}; }

  /// Takes an event of prompt `prompt` (its choice counts within the prompt) and returns what can be sent now: whole
  /// server-sent events, or nothing if the answer goes out whole.
  virtual std::string take(std::size_t prompt, const Event& event) = 0;

  /// Returns the rest, after every choice has ended: usage and the end mark, or the whole JSON.
  virtual std::string finish(const Usage& usage) = 0;
};

/// A server-sent event; `json` has no line break.
std::string sse(std::string_view json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

/// A prompt whose tokens stand in the answer.
struct ListedPrompt {
  std::vector<std::int32_t> ids;
  std::int64_t first_offset = 0;  ///< with echo: where the first of them begins in its text (token_text.h)
};

/// `prompts`: all of them, if the answer has to list them (return_token_ids, or echo with logprobs).
std::unique_ptr<AnswerWriter> make_writer(AnswerHead head, const ApiRequest& request, const Model& model,
                                          std::vector<ListedPrompt> prompts);

}  // namespace pagoda::server
