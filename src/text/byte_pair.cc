#include "text/byte_pair.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/utf8.h"
#include "text/metaspace.h"

namespace pagoda::text {
namespace {

constexpr std::size_t kMaxMerges = 1 << 23;

/// Links the symbols in order.
void link(std::vector<Symbol>& symbols) {
  for (std::int32_t i = 0; i < std::ssize(symbols); ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < std::ssize(symbols) ? i + 1 : -1;
  }
}

/// The token of a text. Merges mostly come in the order of what they make, so that `last` or the next id is likely.
std::optional<std::int32_t> find_near(const Vocabulary& vocabulary, std::int32_t last, std::string_view text) {
  for (const std::int32_t id : {last, last + 1}) {
    if (id >= 0 && id < vocabulary.size() && vocabulary.texts[id] == text) return id;
  }
  return vocabulary.index->find(text);
}

void append_ids(const std::vector<Symbol>& symbols, std::vector<std::int32_t>& out) {
  for (const Symbol& symbol : symbols) {
    if (symbol.length > 0) out.push_back(symbol.id);
  }
}

}  // namespace

Result<MergeTable> MergeTable::create(const std::vector<std::string>& merges, const Vocabulary& vocabulary) {
  if (merges.empty()) return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.merges is missing or empty");
  if (merges.size() > kMaxMerges) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.merges has {} entries; at most {} are allowed",
                merges.size(), kMaxMerges);
  }
  MergeTable table(merges.size());
  std::string joined;
  std::int32_t last = -1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return fail(ErrorCode::kTokenizerInvalid, "merge {} is \"{}\"; two tokens with a space between are expected",
                  rank, merge);
    }
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const auto left = vocabulary.index->find(merge.substr(0, space));
    const auto right = vocabulary.index->find(merge.substr(space + 1));
    const auto both = find_near(vocabulary, last, joined);
    if (!left.has_value() || !right.has_value() || !both.has_value()) {
      return fail(ErrorCode::kTokenizerInvalid, "merge {} is \"{}\"; \"{}\" is no token", rank, merge,
                  !left.has_value()    ? merge.substr(0, space)
                  : !right.has_value() ? merge.substr(space + 1)
                                       : std::string_view(joined));
    }
    last = *both;
    if (vocabulary.is_control(*both)) continue;  // a mark must never come out of text
    table.map_.insert(key(*left, *right), {static_cast<std::uint32_t>(rank), *both});
  }
  return table;
}

Result<MergeTable> MergeTable::create(const StringPool& parts, std::string_view prefix, const Vocabulary& vocabulary) {
  MergeTable table(static_cast<std::size_t>(parts.size()) / 2);
  std::string joined;
  std::int32_t last = -1;
  for (std::int32_t i = 0; i + 1 < parts.size(); i += 2) {
    const std::string_view left = parts[i];
    const std::string_view right = parts[i + 1];
    const auto left_id = vocabulary.index->find(left);
    const auto right_id = vocabulary.index->find(right);
    if (!left_id.has_value() || !right_id.has_value()) {
      return fail(ErrorCode::kTokenizerInvalid, "merge {} joins \"{}\" and \"{}\"; one of them is no token", i / 2,
                  left, right);
    }
    joined.assign(left).append(right.starts_with(prefix) ? right.substr(prefix.size()) : right);
    const auto both = find_near(vocabulary, last, joined);
    if (!both.has_value()) {
      return fail(ErrorCode::kTokenizerInvalid, "merge {} joins \"{}\" and \"{}\"; what they make is no token", i / 2,
                  left, right);
    }
    last = *both;
    if (vocabulary.is_control(*both)) continue;  // a mark must never come out of text
    table.map_.assign(key(*left_id, *right_id), {static_cast<std::uint32_t>(i / 2), *both});
  }
  return table;
}

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary, MergeTable merges, BytePairRules rules)
    : vocabulary_(&vocabulary), merges_(std::move(merges)), rules_(std::move(rules)) {}

/// Unknown tokens on their way into the symbols: they wait until something known follows.
struct BytePairEncoder::Unknown {
  const BytePairRules& rules;
  bool waits = false;

  void flush(std::vector<Symbol>& symbols) {
    if (waits) symbols.push_back({.id = *rules.unknown, .length = 1});
    waits = false;
  }
  void meet(std::vector<Symbol>& symbols) {
    if (!rules.unknown.has_value()) return;
    if (!rules.fuse_unknown) flush(symbols);
    waits = true;
  }
};

bool BytePairEncoder::encode_whole(std::string_view piece, MergeWorkspace& work, std::vector<std::int32_t>& out) const {
  if (rules_.byte_level) {
    work.buffer.clear();
    for (const char c : piece) work.buffer += byte_level_character(static_cast<unsigned char>(c));
    piece = work.buffer;
  }
  const auto id = vocabulary_->find_plain(piece);
  if (id.has_value()) out.push_back(*id);
  return id.has_value();
}

void BytePairEncoder::add_bytes(std::string_view piece, MergeWorkspace& work) const {
  Unknown unknown{rules_};
  for (const char c : piece) {
    const std::int32_t id = vocabulary_->byte_ids[static_cast<unsigned char>(c)];
    if (id >= 0) {
      unknown.flush(work.symbols);
      work.symbols.push_back({.id = id, .length = 1});
    } else {  // left out without an unknown token, as the vocabularies' own library does: some lack a few characters
      unknown.meet(work.symbols);
    }
  }
  unknown.flush(work.symbols);
}

bool BytePairEncoder::add_fallback(std::string_view character, MergeWorkspace& work) const {
  const auto id_of = [&](char c) { return vocabulary_->byte_ids[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(character, [&](char c) { return id_of(c) >= 0; })) return false;
  for (const char c : character) work.symbols.push_back({.id = id_of(c), .length = 1});
  return true;
}

void BytePairEncoder::add_characters(std::string_view piece, MergeWorkspace& work) const {
  Unknown unknown{rules_};
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = read_utf8(piece.substr(at)).length;
    std::string_view character = piece.substr(at, length);
    if (!rules_.prefix.empty() || !rules_.suffix.empty()) {
      work.buffer.assign(at > 0 ? rules_.prefix : "").append(character);
      if (at + length == piece.size()) work.buffer += rules_.suffix;
      character = work.buffer;
    }
    at += length;
    if (const auto id = vocabulary_->find_plain(character); id.has_value()) {
      unknown.flush(work.symbols);
      work.symbols.push_back({.id = *id, .length = 1});
    } else if (!rules_.byte_fallback || !add_fallback(character, work)) {
      unknown.meet(work.symbols);
    }
  }
  unknown.flush(work.symbols);
}

Status BytePairEncoder::encode(std::string_view piece, MergeWorkspace& work, std::vector<std::int32_t>& out) const {
  if (rules_.ignore_merges && encode_whole(piece, work, out)) return Ok{};
  work.symbols.clear();
  if (rules_.byte_level) {
    add_bytes(piece, work);
  } else {
    add_characters(piece, work);
  }
  link(work.symbols);
  merge_all(work, [&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  append_ids(work.symbols, out);
  return Ok{};
}

MetaspacePairEncoder::MetaspacePairEncoder(const Vocabulary& vocabulary, MergeTable merges)
    : vocabulary_(&vocabulary), merges_(std::move(merges)) {}

Result<std::unique_ptr<const FragmentEncoder>> MetaspacePairEncoder::create(const Vocabulary& vocabulary,
                                                                            const std::vector<std::string>& merges) {
  MergeTable table = PAGODA_TRY(MergeTable::create(merges, vocabulary));
  return std::unique_ptr<const FragmentEncoder>(new MetaspacePairEncoder(vocabulary, std::move(table)));
}

Status MetaspacePairEncoder::encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const {
  const std::string escaped = escape_spaces(text);
  std::vector<std::int32_t> bytes;
  work.symbols.clear();
  for (std::string_view rest = escaped; !rest.empty();) {
    const std::string_view character = rest.substr(0, read_utf8(rest).length);
    rest.remove_prefix(character.size());
    if (const auto id = vocabulary_->find_plain(character); id.has_value()) {
      work.symbols.push_back({.id = *id, .length = 1});
      continue;
    }
    bytes.clear();
    PAGODA_TRY(encode_bytes(*vocabulary_, character, bytes));
    for (const std::int32_t id : bytes) work.symbols.push_back({.id = id, .length = 1});
  }
  link(work.symbols);
  merge_all(work, [&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  append_ids(work.symbols, out);
  return Ok{};
}

}  // namespace pagoda::text
