// What the API itself reads in a model file's configuration.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "io/model_file.h"
#include "text/tokenizer_source.h"

namespace pagoda::api {

/// Whether the model can turn text into ids.
bool has_tokenizer(const io::RawConfig& config);

/// The keys `tokenizer.ggml.*`, all that there are. Errors: kConfigType and kConfigRange with the key.
Result<text::TokenizerSource> tokenizer_source(const io::RawConfig& config);

/// The keys `general.sampling.*`: temp, top_k, top_p, min_p, penalty_repeat. What is absent stays empty.
Result<SamplingParams> sampling_defaults(const io::RawConfig& config);

/// `tokenizer.chat_template`.
Result<std::optional<std::string>> chat_template_of(const io::RawConfig& config);

/// The name of the whole file's format: what `general.file_type` declares, else that of most bytes.
std::string format_of(const io::ModelFile& file);

/// "models/a.gguf" is "a".
std::string stem_of(const std::string& path);

}  // namespace pagoda::api
