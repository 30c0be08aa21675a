// What the API itself reads in a Hugging Face directory, beside config.json and the weights.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "io/model_file.h"
#include "text/tokenizer_source.h"

namespace pagoda::api {

/// Whether there is a tokenizer.json.
bool folder_has_tokenizer(const std::string& folder);

/// tokenizer.json with tokenizer_config.json; answers end at the ids that generation_config.json, or else `model`,
/// names as `eos_token_id`, too. Errors: those of text::read_tokenizer_json, with the folder.
Result<text::TokenizerSource> folder_tokenizer_source(const std::string& folder, const io::RawConfig& model);

/// generation_config.json: temperature, top_k, top_p, min_p if `do_sample` is true, else greedy; repetition_penalty.
/// What asks for another way to choose tokens is refused by name, unless it is among `ignored`. Errors: kConfigType,
/// kConfigRange, kConfigUnknown, and those of io::read_json_config.
Result<SamplingParams> folder_sampling_defaults(const std::string& folder, std::span<const std::string> ignored);

/// Whether there is a generation_config.json with that key.
bool folder_generation_has(const std::string& folder, const std::string& key);

/// chat_template.jinja, else `chat_template` of tokenizer_config.json: a text, or the one named "default" of a list.
Result<std::optional<std::string>> folder_chat_template(const std::string& folder);

}  // namespace pagoda::api
