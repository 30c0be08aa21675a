// Hugging Face's tokenizer.json, with what tokenizer_config.json says about tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pagoda/types.h"
#include "text/tokenizer_source.h"

namespace pagoda::text {

/// The files of a model's folder, whole. All views are lent for the call.
struct TokenizerFiles {
  std::string_view tokenizer;             ///< tokenizer.json
  std::string_view config;                ///< tokenizer_config.json; empty: there is none
  std::span<const std::int64_t> end_ids;  ///< `eos_token_id` of generation_config.json and config.json
};

/// What the files declare, for Tokenizer::create: the steps as they stand, in their order, so that ids are those of the
/// library that the file was made for (`tokenizers`). Of tokenizer_config.json count `added_tokens_decoder`,
/// `bos_token`, `eos_token`, `pad_token`, `add_bos_token` and `add_eos_token`; of tokenizer.json `truncation` and
/// `padding` do not.
///
/// Errors: kTokenizerUnsupported names an element or a field that Pagoda does not know; kTokenizerInvalid is for what
/// lacks a field, has one of a wrong kind, or contradicts itself; kJsonSyntax, kJsonEncoding, kJsonDepth,
/// kJsonKeyDuplicate and kJsonLimit for what is no proper JSON.
Result<TokenizerSource> read_tokenizer_json(const TokenizerFiles& files);

}  // namespace pagoda::text
