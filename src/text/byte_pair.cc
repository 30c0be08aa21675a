#include "text/byte_pair.h"

#include <utility>

#include "base/result.h"
#include "text/canonical.h"
#include "text/metaspace.h"
#include "text/utf8.h"

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

ByteLevelEncoder::ByteLevelEncoder(const Vocabulary& vocabulary, MergeTable merges, PreTokenizer pre_tokenizer,
                                   const PreTokenizerRules& rules)
    : vocabulary_(&vocabulary),
      merges_(std::move(merges)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      normal_form_c_(rules.normal_form_c),
      ignore_merges_(rules.ignore_merges) {}

Result<std::unique_ptr<const FragmentEncoder>> ByteLevelEncoder::create(const Vocabulary& vocabulary,
                                                                        const std::vector<std::string>& merges,
                                                                        const PreTokenizerRules& rules) {
  MergeTable table = PAGODA_TRY(MergeTable::create(merges, vocabulary));
  PreTokenizer pre_tokenizer = PAGODA_TRY(PreTokenizer::create(rules));
  return std::unique_ptr<const FragmentEncoder>(
      new ByteLevelEncoder(vocabulary, std::move(table), std::move(pre_tokenizer), rules));
}

Status ByteLevelEncoder::encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const {
  std::string composed;
  if (normal_form_c_) {
    composed = compose_canonical(text);
    text = composed;
  }
  const auto pieces = PAGODA_TRY(pre_tokenizer_.split(text));
  for (const std::string_view piece : pieces) PAGODA_TRY(encode_piece(piece, work, out));
  return Ok{};
}

Status ByteLevelEncoder::encode_piece(std::string_view piece, MergeWorkspace& work,
                                      std::vector<std::int32_t>& out) const {
  if (ignore_merges_) {
    std::string written;
    for (const char c : piece) written += byte_level_character(static_cast<unsigned char>(c));
    if (const auto id = vocabulary_->find_plain(written); id.has_value()) {
      out.push_back(*id);
      return Ok{};
    }
  }
  work.symbols.clear();
  for (const char c : piece) {
    const std::int32_t id = vocabulary_->byte_ids[static_cast<unsigned char>(c)];
    if (id >= 0) {
      work.symbols.push_back({.id = id, .length = 1});
    } else if (const auto unknown = vocabulary_->unknown_for_text(); unknown.has_value()) {
      work.symbols.push_back({.id = *unknown, .length = 1});
    }  // else the byte is left out, as the vocabularies' own library does: some lack a few control characters
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
