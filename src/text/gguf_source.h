// A tokenizer.json said in the words of GGUF files.
#pragma once

#include "pagoda/types.h"
#include "text/tokenizer.h"
#include "text/tokenizer_source.h"

namespace pagoda::text {

/// The keys `tokenizer.ggml.*` for what a tokenizer.json declares: byte-level BPE whose cutting one of the names in
/// `tokenizer.ggml.pre` stands for, or BPE with marked spaces and bytes, whose merges become scores. Compare the result
/// with same_tokens: what the words leave open shows in the ids. Error: kTokenizerUnsupported, with what has no word.
Result<TokenizerSource> to_gguf_source(const TokenizerSource& source);

/// Whether two tokenizers of one vocabulary agree: in what they put around raw text, in the tokens that end an answer,
/// and in the ids of every token's text and of some lines in many scripts. Error: kTokenizerUnsupported with the first
/// text that they do not agree on.
Status same_tokens(const Tokenizer& wanted, const Tokenizer& found);

}  // namespace pagoda::text
