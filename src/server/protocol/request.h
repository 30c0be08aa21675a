// A request of the API, read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pagoda/model.h"
#include "pagoda/request.h"

namespace pagoda::server {

enum class Route : std::uint8_t { kChat, kCompletions, kTokenize, kDetokenize };

/// What fields may be, beyond what is the same for every model.
struct ServedModel {
  std::string name;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;
  bool has_template = false;
  bool adds_tokens = false;            ///< to a text, so that an empty one is a prompt too
  bool declares_temperature = false;   ///< the checkpoint; else the API says 1
  bool reads_enable_thinking = false;  ///< the template, as a variable
  bool reads_reasoning_effort = false;
  Model model;
};

struct ApiRequest {
  Route route = Route::kChat;
  bool stream = false;
  bool include_usage = false;
  bool returns_ids = false;
  std::vector<Request> requests{};  ///< one for each prompt; they differ in nothing else
  std::int32_t n = 1;               ///< choices of each

  // As they stand in the body, until all of it was read.
  std::optional<std::string> model{};
  Request common{};
  std::optional<Chat> chat{};
  std::string messages_json{};
  std::vector<std::variant<RawText, TokenIds>> prompts{};
  std::optional<std::int64_t> max_tokens{};
  std::optional<std::int64_t> max_completion_tokens{};
  bool asks_prompt_logprobs = false;  ///< by name; echo with logprobs reports them too
  bool wants_logprobs = false;
  std::optional<std::int32_t> top_logprobs{};
  bool has_stream_options = false;
  std::vector<std::pair<std::string, std::string>> template_arguments{};  ///< name, JSON
  std::vector<std::int32_t> tokens{};
};

}  // namespace pagoda::server
