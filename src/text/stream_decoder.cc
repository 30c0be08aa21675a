#include "text/stream_decoder.h"

#include <utility>

#include "base/utf8.h"

namespace pagoda::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Moves the characters at the front of `bytes` to `out`, bad parts replaced; an incomplete end stays in `bytes`.
void take_characters(std::string& bytes, std::string& out) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t valid = valid_utf8_length(rest);
    out += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Utf8Part part = read_utf8(rest);
    if (part.kind == Utf8Part::Kind::kIncomplete) break;
    out += kReplacement;
    rest.remove_prefix(part.length);
  }
  bytes.erase(0, bytes.size() - rest.size());
}

}  // namespace

std::string repair_utf8(std::string_view bytes) {
  std::string rest(bytes);
  std::string out;
  take_characters(rest, out);
  if (!rest.empty()) out += kReplacement;
  return out;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special, TextStart start)
    : tokenizer_(&tokenizer), skip_special_(skip_special), start_(start), opening_(tokenizer, start) {}

std::string StreamDecoder::push(std::int32_t id) {
  std::string out;
  if (skip_special_ && tokenizer_->is_control(id)) return out;
  held_ += opening_.next_piece(id);
  take_characters(held_, out);
  return out;
}

std::string StreamDecoder::finish() {
  opening_ = TextOpening(*tokenizer_, start_);
  return repair_utf8(std::exchange(held_, {}));
}

}  // namespace pagoda::text
