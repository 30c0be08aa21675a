// Byte pair encoding: a text starts as bytes (or characters), and a list of merges says which neighbours join, in
// order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/flat_map.h"
#include "text/fragment_encoder.h"

namespace pagoda::text {

/// The merges of a vocabulary, by the two tokens that they join.
class MergeTable {
 public:
  /// Each of `merges` is "left right"; both and what they make must be tokens.
  static Result<MergeTable> create(const std::vector<std::string>& merges, const Vocabulary& vocabulary);
  /// The same for a list of left, right, left, right ...; what a pair makes lacks the `prefix` of the right one. Of
  /// equal pairs the last one counts. A list without pairs merges nothing.
  static Result<MergeTable> create(const StringPool& parts, std::string_view prefix, const Vocabulary& vocabulary);

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

/// What byte pair encoding does besides merging.
struct BytePairRules {
  bool byte_level = true;      ///< a piece is its bytes, else its characters
  bool ignore_merges = false;  ///< a whole piece that is a token is that token, whatever merging would make of it
  bool byte_fallback = false;  ///< a character that is no token is its bytes' tokens
  bool fuse_unknown = false;   ///< a run of what no token covers is one unknown token
  std::optional<std::int32_t> unknown;  ///< none: what no token covers is left out
  std::string prefix = {};              ///< of the characters that do not begin a piece
  std::string suffix = {};              ///< of the last character of a piece
};

/// Pieces cut by a pre-tokenizer, merged from bytes or characters. The vocabulary must outlive it.
class BytePairEncoder : public FragmentEncoder {
 public:
  BytePairEncoder(const Vocabulary& vocabulary, MergeTable merges, BytePairRules rules);

  Status encode(std::string_view piece, MergeWorkspace& work, std::vector<std::int32_t>& out) const override;

 private:
  struct Unknown;
  bool encode_whole(std::string_view piece, MergeWorkspace& work, std::vector<std::int32_t>& out) const;
  void add_bytes(std::string_view piece, MergeWorkspace& work) const;
  void add_characters(std::string_view piece, MergeWorkspace& work) const;
  bool add_fallback(std::string_view character, MergeWorkspace& work) const;

  const Vocabulary* vocabulary_;
  MergeTable merges_;
  BytePairRules rules_;
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
