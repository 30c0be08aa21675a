// tokenizer.json and what stands beside it, from the keys of a GGUF file.
#pragma once

#include <string>

#include "api/describe.h"

namespace pagoda::api {

/// Writes tokenizer.json, tokenizer_config.json with the chat template, and generation_config.json into `folder`;
/// nothing if the GGUF has no tokenizer. The files are read again and have to make the same ids. Errors:
/// kTokenizerUnsupported, with what tokenizer.json has no element for; kIoFailed.
Status write_folder_tokenizer(const DescribedFile& described, const std::string& folder);

}  // namespace pagoda::api
