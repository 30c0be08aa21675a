#include "text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "text/apart_tokens.h"
#include "text/byte_pair.h"
#include "text/sentence_piece.h"
#include "text/vocabulary.h"

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
    return ByteLevelEncoder::create(vocabulary, source.merges, *PAGODA_TRY(rules_of(source)));
  }
  if (source.kind == "gemma4") return MetaspacePairEncoder::create(vocabulary, source.merges);
  if (vocabulary.scores.empty()) return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.scores is missing");
  return Encoder(std::make_unique<SentencePieceEncoder>(vocabulary, source.add_space_prefix.value_or(true)));
}

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
  std::unique_ptr<const ApartTokens> apart;
  Encoder encoder;
  bool wants_bos = false;
  bool wants_eos = false;
  bool drops_leading_space = false;
};

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<const Tokenizer>> Tokenizer::create(TokenizerSource source) {
  auto state = std::make_unique<State>();
  const TextForm form = PAGODA_TRY(form_of(source));
  bool adds_bos = source.kind != "gpt2";
  if (source.kind == "gpt2") adds_bos = PAGODA_TRY(rules_of(source))->add_bos;
  state->vocabulary = PAGODA_TRY(make_vocabulary(source, form));
  state->apart = std::make_unique<ApartTokens>(*state->vocabulary);
  state->encoder = PAGODA_TRY(make_encoder(source, *state->vocabulary));

  if (source.add_bos.value_or(false) && !state->vocabulary->bos.has_value()) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.add_bos_token is true, and no bos_token_id is given");
  }
  if (source.add_eos.value_or(false) && !state->vocabulary->eos.has_value()) {
    return fail(ErrorCode::kTokenizerInvalid, "tokenizer.ggml.add_eos_token is true, and no eos_token_id is given");
  }
  state->wants_bos = source.add_bos.value_or(adds_bos) && state->vocabulary->bos.has_value();
  state->wants_eos = source.add_eos.value_or(false);
  state->drops_leading_space = source.kind == "llama" && source.add_space_prefix.value_or(true);
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::kInvalidArgument, "the text has {} bytes; at most {} are allowed", text.size(),
                kMaxTextBytes);
  }
  std::vector<std::int32_t> ids;
  MergeWorkspace work;
  std::size_t plain_begin = 0;
  const auto flush = [&](std::size_t end) -> Status {
    if (plain_begin == end) return Ok{};
    return state_->encoder->encode(text.substr(plain_begin, end - plain_begin), work, ids);
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto match = state_->apart->longest_at(text, at, special);
    if (!match.has_value()) {
      ++at;
      continue;
    }
    PAGODA_TRY(flush(at));
    ids.push_back(match->id);
    at += match->length;
    plain_begin = at;
  }
  PAGODA_TRY(flush(text.size()));
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special, TextStart start) const {
  std::string out;
  for (const std::int32_t id : ids) {
    if (!skip_special || !is_control(id)) out += piece(id);
  }
  if (start == TextStart::kBeginning && state_->drops_leading_space && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::string_view Tokenizer::piece(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  return state_->vocabulary->pieces[id];
}

std::string_view Tokenizer::token_text(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  return state_->vocabulary->texts[id];
}

std::optional<std::int32_t> Tokenizer::find(std::string_view token_text) const {
  return state_->vocabulary->index->find(token_text);
}

std::int64_t Tokenizer::vocabulary_size() const { return state_->vocabulary->size(); }
std::optional<std::int32_t> Tokenizer::bos() const { return state_->vocabulary->bos; }
std::optional<std::int32_t> Tokenizer::eos() const { return state_->vocabulary->eos; }
std::optional<std::int32_t> Tokenizer::padding() const { return state_->vocabulary->padding; }
bool Tokenizer::wants_bos() const { return state_->wants_bos; }
bool Tokenizer::wants_eos() const { return state_->wants_eos; }
bool Tokenizer::drops_leading_space() const { return state_->drops_leading_space; }

bool Tokenizer::is_control(std::int32_t id) const {
  PAGODA_CHECK(contains(id), "token {} of {}", id, vocabulary_size());
  return state_->vocabulary->is_control(id);
}

bool Tokenizer::is_end_of_generation(std::int32_t id) const {
  return std::ranges::binary_search(end_of_generation_ids(), id);
}

std::span<const std::int32_t> Tokenizer::end_of_generation_ids() const { return state_->vocabulary->end_ids; }

}  // namespace pagoda::text
