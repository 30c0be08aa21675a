// Token ids in, whole characters out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace pagoda::text {

/// `bytes` as valid UTF-8: each maximal part that cannot belong to a character becomes one U+FFFD, as Unicode
/// recommends and Python's `errors="replace"` does. Text that is valid already comes back as it is.
std::string repair_utf8(std::string_view bytes);

/// Decodes an answer as its tokens come. A character spread over several tokens is held back until its last byte is
/// there, so that every string given out is valid UTF-8. All strings of `push` and the one of `finish` make together
/// `repair_utf8(tokenizer.decode(ids, skip_special))`.
///
/// It knows nothing of the prompt: the first string can hold only what was generated. One thread.
class StreamDecoder {
 public:
  /// The tokenizer must outlive the decoder.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special, TextStart start = TextStart::kBeginning);

  /// The characters that `id` completes; often none, sometimes several.
  std::string push(std::int32_t id);

  /// What the held bytes come to when nothing follows. The decoder then starts anew.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  TextStart start_;
  TextOpening opening_;
  std::string held_;
};

}  // namespace pagoda::text
