#include "text/word_piece.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/utf8.h"

namespace pagoda::text {
namespace {

Status add_unknown(std::int32_t unknown, std::vector<std::int32_t>& out) {
  if (unknown < 0) {
    return fail(ErrorCode::kInvalidArgument, "the vocabulary cannot say the text: it has no token for the unknown");
  }
  out.push_back(unknown);
  return Ok{};
}

}  // namespace

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary, std::int32_t unknown, std::string prefix,
                                   std::int64_t most_characters)
    : vocabulary_(&vocabulary), unknown_(unknown), prefix_(std::move(prefix)), most_characters_(most_characters) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) longest_ = std::max(longest_, vocabulary.texts[id].size());
}

/// The longest token at word[begin, end), whose end is set; -1 if there is none.
std::int32_t WordPieceEncoder::longest_at(std::string_view word, std::size_t begin, std::string& buffer,
                                          std::size_t& end) const {
  for (end = std::min(word.size(), begin + longest_); end > begin; --end) {
    if (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) continue;
    std::string_view part = word.substr(begin, end - begin);
    if (begin > 0) {
      buffer.assign(prefix_).append(part);
      part = buffer;
    }
    if (const auto id = vocabulary_->find_plain(part); id.has_value()) return *id;
  }
  return -1;
}

Status WordPieceEncoder::encode(std::string_view word, MergeWorkspace& work, std::vector<std::int32_t>& out) const {
  std::int64_t characters = 0;
  for (std::size_t at = 0; at < word.size(); at += read_utf8(word.substr(at)).length) {
    if (++characters > most_characters_) return add_unknown(unknown_, out);
  }
  const std::size_t kept = out.size();
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    const std::int32_t id = longest_at(word, begin, work.buffer, end);
    if (id < 0) {
      out.resize(kept);
      return add_unknown(unknown_, out);
    }
    out.push_back(id);
  }
  return Ok{};
}

Status WordLevelEncoder::encode(std::string_view word, MergeWorkspace& /*work*/, std::vector<std::int32_t>& out) const {
  const auto id = vocabulary_->find_plain(word);
  if (!id.has_value()) return add_unknown(unknown_, out);
  out.push_back(*id);
  return Ok{};
}

}  // namespace pagoda::text
