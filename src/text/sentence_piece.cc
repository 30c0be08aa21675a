#include "text/sentence_piece.h"

#include <algorithm>
#include <bit>

#include "base/result.h"
#include "base/utf8.h"
#include "text/metaspace.h"

namespace pagoda::text {
namespace {

/// A number that is smaller the higher the score is.
std::uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 becomes 0
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary, bool add_space_prefix)
    : vocabulary_(&vocabulary), add_space_prefix_(add_space_prefix) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) longest_ = std::max(longest_, vocabulary.texts[id].size());
}

Merge SentencePieceEncoder::find(std::string_view joined) const {
  if (joined.size() > longest_) return {};
  const auto id = vocabulary_->find_plain(joined);
  if (!id.has_value()) return {};
  return {rank_of(vocabulary_->scores[static_cast<std::size_t>(*id)]), *id};
}

Status SentencePieceEncoder::encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const {
  std::string escaped = add_space_prefix_ ? std::string(kMetaspace) : std::string();
  escaped += escape_spaces(text);
  const std::string_view whole = escaped;

  work.symbols.clear();
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t length = read_utf8(whole.substr(at)).length;
    const auto index = static_cast<std::int32_t>(work.symbols.size());
    const auto id = vocabulary_->find_plain(whole.substr(at, length));
    work.symbols.push_back({.id = id.value_or(-1),
                            .begin = static_cast<std::uint32_t>(at),
                            .length = static_cast<std::uint32_t>(length),
                            .previous = index - 1,
                            .next = at + length < whole.size() ? index + 1 : -1});
    at += length;
  }
  merge_all(work, [&](const Symbol& left, const Symbol& right) {
    return find(whole.substr(left.begin, left.length + right.length));
  });
  for (const Symbol& symbol : work.symbols) {
    if (symbol.length == 0) continue;
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else {
      PAGODA_TRY(encode_bytes(*vocabulary_, whole.substr(symbol.begin, symbol.length), out));
    }
  }
  return Ok{};
}

}  // namespace pagoda::text
