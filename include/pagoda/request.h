// What is asked of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pagoda/types.h"

namespace pagoda {

/// A conversation, which the model's chat template turns into a prompt. The JSON is what the OpenAI chat API takes,
/// contents as texts: what else a message holds the template gets as it is, lists of parts too.
/// Nothing that stands in messages, tools, documents or arguments can become a control token.
struct Chat {
  std::string messages_json = "[]";             ///< a list of {"role", "content", ...}
  std::optional<std::string> tools_json{};      ///< a list; absent: `tools` is undefined in the template
  std::optional<std::string> documents_json{};  ///< a list; absent: undefined
  std::string arguments_json = "{}";            ///< an object: further variables of the template
  bool add_generation_prompt = true;            ///< the template opens the assistant's turn
};

/// Text that is fed as it is, without a template.
struct RawText {
  std::string text{};    ///< UTF-8; what is none is kInvalidArgument, with the offset
  bool special = false;  ///< the texts of control tokens count as those tokens
  bool bos = true;       ///< start (and end) with what the model asks for around raw text
};

/// Token ids, taken as they are.
struct TokenIds {
  std::vector<std::int32_t> ids{};
};

/// One request: a prompt, and how to go on from it.
struct Request {
  std::variant<Chat, RawText, TokenIds> prompt{};
  SamplingParams sampling;
  std::int32_t n = 1;  ///< in [1, 128]: this many choices, drawn independently from streams (seed, choice)

  /// Report the log-probability of each prompt token after the first, and of this many best alternatives (in [0, 20]).
  std::optional<std::int32_t> prompt_logprobs{};
  bool echo = false;  ///< the answer's text begins with the prompt's

  std::int32_t priority = 0;            ///< the higher is admitted first
  std::optional<double> deadline_ms{};  ///< from submission; past it the request ends with kDeadlineExceeded
  bool cache_prompt = true;             ///< false: takes nothing from the prefix cache and leaves nothing in it
  std::string cache_salt{};             ///< requests share cached prefixes only with requests of the same salt
};

}  // namespace pagoda
