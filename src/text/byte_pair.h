// Byte pair encoding: a text starts as bytes (or characters), and a list of merges says which neighbours join, in
// order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/flat_map.h"
#include "text/fragment_encoder.h"
#include "text/pre_tokenizer.h"

namespace pagoda::text {

/// The merges of a vocabulary, by the two tokens that they join.
class MergeTable {
 public:
  /// Each of `merges` is "left right"; both and what they make must be tokens.
  static Result<MergeTable> create(const std::vector<std::string>& merges, const Vocabulary& vocabulary);

  Merge find(std::int32_t left, std::int32_t right) const {
    const Merge* merge = map_.find(key(left, right));
    return merge == nullptr ? Merge{} : *merge;
  }

 private:
  explicit MergeTable(std::size_t expected) : map_(expected) {}
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }

  FlatMap<Merge> map_;
};

/// GPT-2's form: pieces cut by a pre-tokenizer, merged from bytes. The vocabulary must outlive it.
class ByteLevelEncoder : public FragmentEncoder {
 public:
  static Result<std::unique_ptr<const FragmentEncoder>> create(const Vocabulary& vocabulary,
                                                               const std::vector<std::string>& merges,
                                                               const PreTokenizerRules& rules);

  Status encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  ByteLevelEncoder(const Vocabulary& vocabulary, MergeTable merges, PreTokenizer pre_tokenizer,
                   const PreTokenizerRules& rules);
  Status encode_piece(std::string_view piece, MergeWorkspace& work, std::vector<std::int32_t>& out) const;

  const Vocabulary* vocabulary_;
  MergeTable merges_;
  PreTokenizer pre_tokenizer_;
  bool normal_form_c_;
  bool ignore_merges_;
};

/// Gemma 4's form: spaces become "▁", the text is one piece, merged from characters; what is no token falls to bytes.
/// The vocabulary must outlive it.
class MetaspacePairEncoder : public FragmentEncoder {
 public:
  static Result<std::unique_ptr<const FragmentEncoder>> create(const Vocabulary& vocabulary,
                                                               const std::vector<std::string>& merges);

  Status encode(std::string_view text, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  MetaspacePairEncoder(const Vocabulary& vocabulary, MergeTable merges);

  const Vocabulary* vocabulary_;
  MergeTable merges_;
};

}  // namespace pagoda::text
