// From text to token ids and back. Text is bytes; what is no valid UTF-8 is encoded too, and comes back unchanged
// where the vocabulary has a token for each of its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/types.h"
#include "text/byte_range.h"
#include "text/tokenizer_source.h"

namespace pagoda::text {

/// Where the text of a control token ("<|im_end|>") becomes that token. Everywhere else it is text like any other,
/// so that nobody who may only write a message can end it or forge another.
class SpecialTokens {
 public:
  /// Nowhere: for text that a user wrote.
  static SpecialTokens none() { return SpecialTokens(Mode::kNone, {}); }
  /// Everywhere: for text whose author may say everything.
  static SpecialTokens all() { return SpecialTokens(Mode::kAll, {}); }
  /// Where the whole token lies in `trusted` bytes: those that a chat template itself wrote. The ranges are sorted and
  /// are lent for the call.
  static SpecialTokens within(std::span<const ByteRange> trusted) { return SpecialTokens(Mode::kWithin, trusted); }

  /// Whether a control token's text at [begin, end) becomes the token.
  bool allows(std::size_t begin, std::size_t end) const;

  /// Whether the answer differs from place to place.
  bool depends_on_place() const { return mode_ == Mode::kWithin; }

 private:
  enum class Mode { kNone, kAll, kWithin };
  SpecialTokens(Mode mode, std::span<const ByteRange> trusted) : mode_(mode), trusted_(trusted) {}

  Mode mode_;
  std::span<const ByteRange> trusted_;
};

/// What stands before the ids that are decoded. Some vocabularies write a space in front of every text when they encode
/// it; it is taken away again where a text begins, and kept where one goes on.
enum class TextStart { kBeginning, kContinuation };

/// A vocabulary with its rules. Immutable: any number of threads may use one.
///
/// `encode` adds nothing by itself: a caller that feeds raw text puts it between `prefix_ids()` and `suffix_ids()`; one
/// that feeds a rendered chat does not, for the template has written them.
class Tokenizer {
 public:
  /// Checks `source`, which may come from any file, and builds the tables. Errors: kTokenizerUnsupported for a kind or
  /// pre-tokenizer that Pagoda does not know, kTokenizerInvalid for data that contradicts itself.
  static Result<std::unique_ptr<const Tokenizer>> create(TokenizerSource source);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// The ids of `text`; time is about linear in its length, whatever it says. An empty text has none. A byte-level
  /// vocabulary that lacks a byte leaves it out, as the library it was made with does (SmolLM2 has no U+0004). Errors,
  /// kInvalidArgument: a text of more than 512 MiB, or one that a vocabulary with neither bytes nor an unknown token
  /// cannot say.
  Result<std::vector<std::int32_t>> encode(std::string_view text, SpecialTokens special = SpecialTokens::none()) const;

  /// How many ids `encode` gives at least, found without it; 0 where that is not known.
  std::int64_t least_tokens(std::string_view text) const;

  /// The bytes of `ids`, joined; `skip_special` leaves control tokens out. Ids outside the vocabulary are our fault:
  /// check a caller's with `contains`. The bytes need not be UTF-8, see `repair_utf8` and StreamDecoder.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special,
                     TextStart start = TextStart::kBeginning) const;

  /// The bytes that one token adds to a text (that of a control token included). Valid as long as the tokenizer.
  std::string_view piece(std::int32_t id) const;

  /// The same for the token that a text begins with: some vocabularies write no space there. `leading_cut` still
  /// applies.
  std::string_view first_piece(std::int32_t id) const;

  /// What `decode` takes away where a text begins, since `encode` has put it there.
  struct LeadingCut {
    char character = ' ';
    std::int64_t most = 0;  ///< how often at most
  };
  LeadingCut leading_cut() const;

  /// The token as the file writes it: "Ġthe", "▁the", "<0x0A>".
  std::string_view token_text(std::int32_t id) const;

  /// The id of a token as the file writes it.
  std::optional<std::int32_t> find(std::string_view token_text) const;

  std::int64_t vocabulary_size() const;
  bool contains(std::int64_t id) const { return id >= 0 && id < vocabulary_size(); }
  /// Whether the id stands for a token: false past the vocabulary, and for a number that the vocabulary leaves out.
  bool has_token(std::int64_t id) const;

  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eos() const;
  std::optional<std::int32_t> padding() const;

  /// Whether raw text starts with `bos()` / ends with `eos()`, as the file or its kind of tokenizer has it.
  bool wants_bos() const;
  bool wants_eos() const;

  /// What stands before and behind raw text. For a GGUF file that is `bos()` and `eos()` where they are wanted; a
  /// tokenizer.json may say more, and a chat template then writes all of it itself.
  std::span<const std::int32_t> prefix_ids() const;
  std::span<const std::int32_t> suffix_ids() const;

  /// Whether the token is one of the model's marks and no text: its text is honoured only where SpecialTokens allows.
  bool is_control(std::int32_t id) const;

  /// Whether an answer ends with this token: EOS, end of turn, end of message, and tokens whose text is known to mean
  /// it.
  bool is_end_of_generation(std::int32_t id) const;
  /// All of them, in ascending order.
  std::span<const std::int32_t> end_of_generation_ids() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

/// The pieces of a text's tokens in order, as the place where they stand has them.
class TextOpening {
 public:
  /// The tokenizer must outlive it.
  TextOpening(const Tokenizer& tokenizer, TextStart start);

  /// What `id`, the next token, adds.
  std::string_view next_piece(std::int32_t id);

 private:
  const Tokenizer* tokenizer_;
  bool first_;                 ///< no token was there yet
  Tokenizer::LeadingCut cut_;  ///< what may still be taken away
};

}  // namespace pagoda::text
