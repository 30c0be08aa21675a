// What a model file says about its tokenizer, as plain data. Nothing here is checked yet: Tokenizer::create does that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/declared.h"

namespace pagoda::text {

/// The kinds that `tokenizer.ggml.token_type` gives, as the file numbers them.
enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,      ///< stands for text that no token covers
  kControl = 3,      ///< a turn marker, BOS, EOS ...: its text means nothing when a user types it
  kUserDefined = 4,  ///< always one token wherever its text stands, never split nor merged
  kUnused = 5,
  kByte = 6,  ///< `<0xHH>`: one byte, for text that no other token covers
};

/// The keys `tokenizer.ggml.*` of a GGUF file, or what `read_tokenizer_json` makes of the files of a folder. An absent
/// key is an empty value here.
struct TokenizerSource {
  std::optional<DeclaredTokenizer> declared;  ///< of a tokenizer.json; then `pre`, `scores`, `merges` stay empty

  std::string kind;                 ///< `model`: "gpt2", "llama", "gemma4"
  std::string pre;                  ///< `pre`: how byte-level BPE cuts text before merging, as "llama-bpe"
  std::vector<std::string> tokens;  ///< `tokens`: the text of each id
  std::vector<float> scores;        ///< `scores`: one for each token; "llama" merges the highest first
  std::vector<std::int32_t> types;  ///< `token_type`: TokenType of each token; empty: all normal
  std::vector<std::string> merges;  ///< `merges`: "left right", the first merged first

  std::optional<std::int64_t> bos;      ///< `bos_token_id`
  std::optional<std::int64_t> eos;      ///< `eos_token_id`
  std::optional<std::int64_t> eot;      ///< `eot_token_id`
  std::optional<std::int64_t> eom;      ///< `eom_token_id`
  std::optional<std::int64_t> unknown;  ///< `unknown_token_id`
  std::optional<std::int64_t> padding;  ///< `padding_token_id`

  std::optional<bool> add_bos;                   ///< `add_bos_token`; absent: what the kind is used to
  std::optional<bool> add_eos;                   ///< `add_eos_token`
  std::optional<bool> add_space_prefix;          ///< `add_space_prefix`; absent: true for "llama"
  std::optional<bool> remove_extra_whitespaces;  ///< `remove_extra_whitespaces`; true is refused
};

}  // namespace pagoda::text
