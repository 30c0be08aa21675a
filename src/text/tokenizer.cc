#include "text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "text/apart_tokens.h"
#include "text/byte_pair.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/sentence_piece.h"
#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/word_piece.h"

namespace pagoda::text {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 29;  // "▁" for each space stays below 2^31

using Encoder = std::unique_ptr<const FragmentEncoder>;

Result<const PreTokenizerRules*> rules_of(const TokenizerSource& source) {
  const PreTokenizerRules* rules = find_pre_tokenizer(source.pre.empty() ? "default" : source.pre);
  if (rules == nullptr) {
    return fail(ErrorCode::kTokenizerUnsupported, "the pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported",
                source.pre);
  }
  return rules;
}

/// What `create` finds out about a kind before the vocabulary is read.
Result<TextForm> form_of(const TokenizerSource& source) {
  if (source.kind.empty()) return fail(ErrorCode::kTokenizerMissing, "tokenizer.ggml.model is missing");
  if (source.kind != "gpt2" && source.kind != "llama" && source.kind != "gemma4") {
    return fail(ErrorCode::kTokenizerUnsupported,
                "tokenizers of the kind \"{}\" (tokenizer.ggml.model) are not supported; gpt2, llama and gemma4 are",
                source.kind);
  }
  if (source.remove_extra_whitespaces.value_or(false)) {
    return fail(ErrorCode::kTokenizerUnsupported, "tokenizer.ggml.remove_extra_whitespaces is not supported");
  }
  if (source.kind != "llama" && source.add_space_prefix.value_or(false)) {
    return fail(ErrorCode::kTokenizerUnsupported,
                "tokenizer.ggml.add_space_prefix is not supported for tokenizers of the kind \"{}\"", source.kind);
  }
  return source.kind == "gpt2" ? TextForm::kByteLevel : TextForm::kMetaspace;
}

Result<Encoder> make_encoder(const TokenizerSource& source, const Vocabulary& vocabulary) {
  if (source.kind == "gpt2") {
    const PreTokenizerRules& rules = *PAGODA_TRY(rules_of(source));
    MergeTable merges = PAGODA_TRY(MergeTable::create(source.merges, vocabulary));
    return Encoder(std::make_unique<BytePairEncoder>(
        vocabulary, std::move(merges),
        BytePairRules{.ignore_merges = rules.ignore_merges, .unknown = vocabulary.unknown_for_text()}));
  }
  if (source.kind == "gemma4") return MetaspacePairEncoder::create(vocabulary, source.merges);
  if (vocabulary.scores.empty()) return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.scores is missing");
  return Encoder(std::make_unique<SentencePieceEncoder>(vocabulary, source.add_space_prefix.value_or(true)));
}

/// What stands for text that no token covers. Some files name a mark that ends or begins an answer here; text must
/// never become one.
std::int32_t unknown_of(const ModelRules& rules, const Vocabulary& vocabulary) {
  const bool ends = std::ranges::binary_search(vocabulary.end_ids, rules.unknown);
  return ends || vocabulary.bos == rules.unknown ? -1 : rules.unknown;
}

Result<Encoder> make_declared_encoder(DeclaredTokenizer& declared, const Vocabulary& vocabulary) {
  ModelRules& rules = declared.model;
  const std::int32_t unknown = unknown_of(rules, vocabulary);
  switch (rules.kind) {
    case ModelRules::Kind::kUnigram:
      return UnigramEncoder::create(vocabulary, std::move(rules.scores), unknown, rules.byte_fallback);
    case ModelRules::Kind::kWordPiece:
      return Encoder(std::make_unique<WordPieceEncoder>(vocabulary, unknown, rules.word_prefix, rules.most_characters));
    case ModelRules::Kind::kWordLevel:
      return Encoder(std::make_unique<WordLevelEncoder>(vocabulary, unknown));
    case ModelRules::Kind::kBytePairs:
      break;
  }
  MergeTable merges = PAGODA_TRY(MergeTable::create(rules.merges, rules.word_prefix, vocabulary));
  BytePairRules pairs{.byte_level = rules.byte_level,
                      .ignore_merges = rules.ignore_merges,
                      .byte_fallback = rules.byte_fallback,
                      .fuse_unknown = rules.fuse_unknown,
                      .unknown = std::nullopt,
                      .prefix = rules.word_prefix,
                      .suffix = rules.word_suffix};
  if (unknown >= 0) pairs.unknown = unknown;
  return Encoder(std::make_unique<BytePairEncoder>(vocabulary, std::move(merges), std::move(pairs)));
}

/// The last word of the decoder's steps, if it takes something away from the beginning of the whole text.
Tokenizer::LeadingCut leading_cut_of(const DeclaredTokenizer& declared) {
  for (const DecoderRule& rule : declared.decoder) {
    if (rule.kind == DecoderRule::Kind::kStripText) return {.character = rule.content[0], .most = rule.left};
  }
  return {};
}

struct Workspace {
  MergeWorkspace merge;
  PieceWorkspace pieces;
  std::vector<TextPart> parts;
};

}  // namespace

bool SpecialTokens::allows(std::size_t begin, std::size_t end) const {
  if (mode_ != Mode::kWithin) return mode_ == Mode::kAll;
  auto range = std::ranges::upper_bound(trusted_, begin, {}, &ByteRange::end);
  std::size_t covered = begin;
  for (; range != trusted_.end() && range->begin <= covered; ++range) {
    covered = std::max(covered, range->end);
    if (covered >= end) return true;
  }
  return false;
}

struct Tokenizer::State {
  std::unique_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<const ApartTokens> apart;             ///< looked for in the text as it is
  std::unique_ptr<const ApartTokens> normalized_apart;  ///< looked for in the normalised text; null: none are
  std::unique_ptr<const ApartTokens>
      trusted_apart;                          ///< all, for a text in which the place of marks matters; may be null
  std::optional<Normalizer> normalizer;       ///< absent: the text stays as it is
  std::optional<PreTokenizer> pre_tokenizer;  ///< absent: text is one piece
  Encoder encoder;
  bool wants_bos = false;
  bool wants_eos = false;
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
  LeadingCut leading_cut;
  std::int64_t most_bytes = 0;  ///< of a text that one token can stand for; 0: not known

  Status set_up(TokenizerSource& source);
  Status set_up_declared(DeclaredTokenizer declared);
  Status encode_text(std::string_view text, std::size_t offset, const SpecialTokens& special, Workspace& work,
                     std::vector<std::int32_t>& out) const;
  Status encode_words(std::string_view text, bool at_start, Workspace& work, std::vector<std::int32_t>& out) const;
};

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

bool lacks(const Vocabulary& vocabulary, unsigned char byte) { return vocabulary.byte_ids[byte] < 0; }

/// The most bytes of a text that become one token, if all bytes that have tokens become parts of some and normalizing
/// takes no more away than composing characters can; else 0. The texts of tokens are never shorter than what they stand
/// for.
std::int64_t most_bytes_of(const Vocabulary& vocabulary, bool composes) {
  constexpr std::int64_t kMostComposed = 4;  // three bytes of marks, or of another form, for each byte that stays
  const bool lacks_some = std::ranges::find(vocabulary.byte_ids, -1) != vocabulary.byte_ids.end();
  if (lacks_some && (composes || vocabulary.form != TextForm::kByteLevel)) return 0;
  std::int64_t most = 1;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    most = std::max(most, std::max(std::ssize(vocabulary.texts[id]), std::ssize(vocabulary.pieces[id])));
  }
  return composes ? most * kMostComposed : most;
}

bool composes(const NormalizerRule& rule) {
  return rule.kind == NormalizerRule::Kind::kForm && rule.form == NormalForm::kC;
}

/// Whether ids of a text stand for all of it, but for what composing takes.
bool keeps_all(const DeclaredTokenizer& declared) {
  using Kind = NormalizerRule::Kind;
  const auto keeps = [](const NormalizerRule& rule) {
    const bool replaces = rule.kind == Kind::kReplace && rule.literal && rule.content.size() >= rule.pattern.size();
    return composes(rule) || replaces || rule.kind == Kind::kPrepend || rule.kind == Kind::kByteCharacters;
  };
  const ModelRules& model = declared.model;
  return model.kind == ModelRules::Kind::kBytePairs && (model.byte_level || model.byte_fallback) &&
         model.word_prefix.empty() && model.word_suffix.empty() && std::ranges::all_of(declared.normalizer, keeps) &&
         std::ranges::none_of(declared.cuts, [](const Cut& cut) { return cut.behavior == SplitBehavior::kRemoved; }) &&
         std::ranges::none_of(declared.added,
                              [](const AddedToken& token) { return token.strips_left || token.strips_right; });
}

/// From the keys of a GGUF file.
Status Tokenizer::State::set_up(TokenizerSource& source) {
  const TextForm form = PAGODA_TRY(form_of(source));
  bool adds_bos = source.kind != "gpt2";
  if (source.kind == "gpt2") {
    const PreTokenizerRules& rules = *PAGODA_TRY(rules_of(source));
    adds_bos = rules.add_bos;
    if (rules.normal_form_c) normalizer.emplace(PAGODA_TRY(Normalizer::create({NormalizerRule{}})));
    pre_tokenizer.emplace(PAGODA_TRY(PreTokenizer::create(rules)));
  }
  vocabulary = PAGODA_TRY(make_vocabulary(source, form));
  apart = std::make_unique<ApartTokens>(*vocabulary);
  encoder = PAGODA_TRY(make_encoder(source, *vocabulary));
  if (source.add_bos.value_or(false) && !vocabulary->bos.has_value()) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.add_bos_token is true, and no bos_token_id is given");
  }
  if (source.add_eos.value_or(false) && !vocabulary->eos.has_value()) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.add_eos_token is true, and no eos_token_id is given");
  }
  wants_bos = source.add_bos.value_or(adds_bos) && vocabulary->bos.has_value();
  wants_eos = source.add_eos.value_or(false);
  if (wants_bos) prefix.push_back(*vocabulary->bos);
  if (wants_eos) suffix.push_back(*vocabulary->eos);
  if (source.kind == "llama" && source.add_space_prefix.value_or(true)) leading_cut.most = 1;
  most_bytes = most_bytes_of(*vocabulary, normalizer.has_value());
  return Ok{};
}

/// From a tokenizer.json.
Status Tokenizer::State::set_up_declared(DeclaredTokenizer declared) {
  if (keeps_all(declared)) most_bytes = most_bytes_of(*vocabulary, std::ranges::any_of(declared.normalizer, composes));
  const bool any_normalized = std::ranges::any_of(declared.added, &AddedToken::normalized);
  apart = std::make_unique<ApartTokens>(*vocabulary, declared.added, false);
  if (any_normalized) normalized_apart = std::make_unique<ApartTokens>(*vocabulary, declared.added, true);
  if (!declared.normalizer.empty()) {
    normalizer.emplace(PAGODA_TRY(Normalizer::create(std::move(declared.normalizer))));
  }
  if (any_normalized && normalizer) {
    for (AddedToken& token : declared.added) {
      if (!token.normalized || !vocabulary->is_control(token.id)) continue;
      token.normalized = false;
      token.looked_for = vocabulary->texts[token.id];
    }
    trusted_apart = std::make_unique<ApartTokens>(*vocabulary, declared.added, false);
  }
  if (!declared.cuts.empty()) pre_tokenizer.emplace(PAGODA_TRY(PreTokenizer::create({.cuts = declared.cuts})));
  leading_cut = leading_cut_of(declared);
  prefix = declared.prefix;
  suffix = declared.suffix;
  encoder = PAGODA_TRY(make_declared_encoder(declared, *vocabulary));
  return Ok{};
}

Result<std::unique_ptr<const Tokenizer>> Tokenizer::create(TokenizerSource source) {
  auto state = std::make_unique<State>();
  if (source.declared) {
    const bool byte_level = source.declared->model.byte_level;
    state->vocabulary = PAGODA_TRY(make_vocabulary(source, byte_level ? TextForm::kByteLevel : TextForm::kMetaspace));
    PAGODA_TRY(state->set_up_declared(std::move(*source.declared)));
  } else {
    PAGODA_TRY(state->set_up(source));
  }
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

/// Text between the tokens that are looked for in the text as it is. `offset`: where it begins there.
Status Tokenizer::State::encode_text(std::string_view text, std::size_t offset, const SpecialTokens& special,
                                     Workspace& work, std::vector<std::int32_t>& out) const {
  std::string changed;
  std::size_t front = 0;
  const bool whole = offset == 0;
  if (normalizer) {
    changed = PAGODA_TRY(normalizer->apply(text, work.pieces.match));
    front = normalizer->cut_in_front(text);
    text = changed;
  }
  if (!normalized_apart) return encode_words(text, whole && front == 0, work, out);
  // Marks of a text whose places matter were found before anything changed.
  const SpecialTokens allowed = trusted_apart && special.depends_on_place() ? SpecialTokens::none() : special;
  std::vector<TextPart> parts;
  normalized_apart->cut(text, offset, allowed, parts);
  for (const TextPart& part : parts) {
    if (part.id >= 0) {
      out.push_back(part.id);
      continue;
    }
    const bool at_start = whole && front == 0 && part.begin == 0;
    PAGODA_TRY(encode_words(text.substr(part.begin, part.end - part.begin), at_start, work, out));
  }
  return Ok{};
}

Status Tokenizer::State::encode_words(std::string_view text, bool at_start, Workspace& work,
                                      std::vector<std::int32_t>& out) const {
  if (text.empty()) return Ok{};
  if (!pre_tokenizer) return encoder->encode(text, work.merge, out);
  PAGODA_TRY(pre_tokenizer->split(text, at_start, work.pieces));
  for (const auto& piece : work.pieces.pieces) PAGODA_TRY(encoder->encode(piece.text, work.merge, out));
  return Ok{};
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::kInvalidArgument, "the text has {} bytes; at most {} are allowed", text.size(),
                kMaxTextBytes);
  }
  std::vector<std::int32_t> ids;
  Workspace work;
  const bool places = special.depends_on_place() && state_->trusted_apart;
  (places ? *state_->trusted_apart : *state_->apart).cut(text, 0, special, work.parts);
  for (const TextPart& part : work.parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      PAGODA_TRY(state_->encode_text(text.substr(part.begin, part.end - part.begin), part.begin, special, work, ids));
    }
  }
  return ids;
}

std::int64_t Tokenizer::least_tokens(std::string_view text) const {
  if (state_->most_bytes == 0) return 0;
  const auto left_out = std::ranges::count_if(
      text, [this](char byte) { return lacks(*state_->vocabulary, static_cast<unsigned char>(byte)); });
  return (std::ssize(text) - left_out) / state_->most_bytes;
}

TextOpening::TextOpening(const Tokenizer& tokenizer, TextStart start)
    : tokenizer_(&tokenizer), first_(start == TextStart::kBeginning) {
  if (first_) cut_ = tokenizer.leading_cut();
}

std::string_view TextOpening::next_piece(std::int32_t id) {
  std::string_view piece = first_ ? tokenizer_->first_piece(id) : tokenizer_->piece(id);
  first_ = false;
  while (cut_.most > 0 && !piece.empty()) {
    if (piece[0] != cut_.character) {
      cut_.most = 0;
      break;
    }
    piece.remove_prefix(1);
    --cut_.most;
  }
  return piece;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special, TextStart start) const {
  TextOpening opening(*this, start);
  std::string out;
  for (const std::int32_t id : ids) {
    if (!skip_special || !is_control(id)) out += opening.next_piece(id);
  }
  return out;
}

std::string_view Tokenizer::piece(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  return state_->vocabulary->pieces[id];
}

std::string_view Tokenizer::first_piece(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  const Vocabulary& vocabulary = *state_->vocabulary;
  return vocabulary.first_pieces ? (*vocabulary.first_pieces)[id] : vocabulary.pieces[id];
}

std::string_view Tokenizer::token_text(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  return state_->vocabulary->texts[id];
}

std::optional<std::int32_t> Tokenizer::find(std::string_view token_text) const {
  return state_->vocabulary->index->find(token_text);
}

bool Tokenizer::has_token(std::int64_t id) const {
  if (!contains(id)) return false;
  const Vocabulary& vocabulary = *state_->vocabulary;
  const auto number = static_cast<std::int32_t>(id);
  if (vocabulary.type(number) != TokenType::kUnused) return true;
  // Converters to GGUF give a number that is left out a text of this kind.
  const std::string_view text = vocabulary.texts[number];
  return !text.empty() && text != pagoda::format("[PAD{}]", id);
}

std::int64_t Tokenizer::vocabulary_size() const { return state_->vocabulary->size(); }
std::optional<std::int32_t> Tokenizer::bos() const { return state_->vocabulary->bos; }
std::optional<std::int32_t> Tokenizer::eos() const { return state_->vocabulary->eos; }
std::optional<std::int32_t> Tokenizer::padding() const { return state_->vocabulary->padding; }
bool Tokenizer::wants_bos() const { return state_->wants_bos; }
bool Tokenizer::wants_eos() const { return state_->wants_eos; }
std::span<const std::int32_t> Tokenizer::prefix_ids() const { return state_->prefix; }
std::span<const std::int32_t> Tokenizer::suffix_ids() const { return state_->suffix; }
Tokenizer::LeadingCut Tokenizer::leading_cut() const { return state_->leading_cut; }

bool Tokenizer::is_control(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  return state_->vocabulary->is_control(id);
}

bool Tokenizer::is_end_of_generation(std::int32_t id) const {
  return std::ranges::binary_search(end_of_generation_ids(), id);
}

std::span<const std::int32_t> Tokenizer::end_of_generation_ids() const { return state_->vocabulary->end_ids; }

}  // namespace pagoda::text
