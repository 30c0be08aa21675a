#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/utf8.h"
#include "text/vocabulary.h"

namespace pagoda::text {
namespace {

using Kind = Cut::Kind;
using Piece = PieceWorkspace::Piece;

/// Adds the part [begin, end) of a piece unless it is empty.
void add_part(std::vector<Piece>& out, const Piece& piece, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  out.push_back({.text = piece.text.substr(begin, end - begin),
                 .continues = piece.continues && begin == 0,
                 .first = piece.first && begin == 0});
}

/// Byte-level text writes each byte as a character, and these as digits: 0-9 and, of bytes inside characters, those
/// that become ² ³ ¹ ¼ ½ ¾. A vocabulary that splits digits after byte mapping splits these too.
bool is_byte_digit(char c) {
  constexpr std::string_view kOthers = "\xB2\xB3\xB9\xBC\xBD\xBE";
  return (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
}

void cut_byte_digits(const Piece& piece, std::vector<Piece>& out) {
  const std::string_view text = piece.text;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    if (i < text.size() && is_byte_digit(text[i]) == is_byte_digit(text[i - 1])) continue;
    add_part(out, piece, begin, i);
    begin = i;
  }
}

std::size_t characters_end(std::string_view text, std::size_t begin, std::int64_t count) {
  while (begin < text.size() && count-- > 0) begin += read_utf8(text.substr(begin)).length;
  return begin;
}

void cut_fixed_length(const Piece& piece, std::int64_t length, std::vector<Piece>& out) {
  for (std::size_t begin = 0; begin < piece.text.size();) {
    const std::size_t end = characters_end(piece.text, begin, length);
    add_part(out, piece, begin, end);
    begin = end;
  }
}

/// Cuts the run of digits [begin, end) into threes from the right.
void cut_digit_run(const Piece& piece, ByteRange run, std::vector<Piece>& out) {
  std::int64_t left = 0;
  for (std::size_t i = run.begin; i < run.end; i += read_utf8(piece.text.substr(i)).length) ++left;
  for (std::size_t begin = run.begin; begin < run.end;) {
    const std::int64_t count = left % 3 == 0 ? 3 : left % 3;
    const std::size_t end = characters_end(piece.text, begin, count);
    add_part(out, piece, begin, end);
    begin = end;
    left -= count;
  }
}

/// A part of a piece: found by the pattern, or what lies between.
struct Part {
  std::size_t begin;
  std::size_t end;
  bool found;
};

std::vector<Part> parts_of(const Piece& piece, const std::vector<ByteRange>& matches, bool invert) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (const ByteRange& match : matches) {
    if (done < match.begin) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < piece.text.size()) parts.push_back({done, piece.text.size(), invert});
  return parts;
}

/// Joins found parts with the piece before; with `runs` also the parts of a run of one kind with each other.
void merge_backward(const Piece& piece, const std::vector<Part>& parts, bool runs, std::vector<Piece>& out) {
  std::vector<ByteRange> ranges;
  bool previous = false;
  for (const Part& part : parts) {
    const bool joins = runs ? part.found == previous : part.found && !previous;
    previous = part.found;
    if (joins && !ranges.empty()) {
      ranges.back().end = part.end;
    } else {
      ranges.push_back({part.begin, part.end});
    }
  }
  for (const ByteRange& range : ranges) add_part(out, piece, range.begin, range.end);
}

void merge_forward(const Piece& piece, const std::vector<Part>& parts, std::vector<Piece>& out) {
  std::vector<ByteRange> ranges;
  bool previous = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const bool joins = part->found && !previous;
    previous = part->found;
    if (joins && !ranges.empty()) {
      ranges.back().begin = part->begin;
    } else {
      ranges.push_back({part->begin, part->end});
    }
  }
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) add_part(out, piece, range->begin, range->end);
}

}  // namespace

/// One compiled cut.
struct PreTokenizer::Step {
  Cut cut;
  std::vector<Pattern> pattern;  ///< one, if the kind has a pattern

  Status apply(const Piece& piece, PieceWorkspace& work) const;
  void apply_matches(const Piece& piece, PieceWorkspace& work) const;
  void mark_spaces(const Piece& piece, PieceWorkspace& work) const;
};

void PreTokenizer::Step::apply_matches(const Piece& piece, PieceWorkspace& work) const {
  std::vector<Piece>& out = work.next;
  if (cut.behavior == SplitBehavior::kMergedWithNext) {
    return merge_forward(piece, parts_of(piece, work.matches, cut.invert), out);
  }
  if (cut.behavior == SplitBehavior::kMergedWithPrevious || cut.behavior == SplitBehavior::kContiguous) {
    const bool runs = cut.behavior == SplitBehavior::kContiguous;
    return merge_backward(piece, parts_of(piece, work.matches, cut.invert), runs, out);
  }
  const bool removed = cut.behavior == SplitBehavior::kRemoved;
  std::size_t done = 0;
  for (const ByteRange& match : work.matches) {
    if (!removed || !cut.invert) add_part(out, piece, done, match.begin);
    if (cut.kind == Kind::kDigitGroups || cut.kind == Kind::kDigitGroupsWord) {
      cut_digit_run(piece, match, out);
    } else if (!removed || cut.invert) {
      add_part(out, piece, match.begin, match.end);
    }
    done = match.end;
  }
  if (!removed || !cut.invert) add_part(out, piece, done, piece.text.size());
}

void PreTokenizer::Step::mark_spaces(const Piece& piece, PieceWorkspace& work) const {
  std::string marked;
  for (std::string_view rest = piece.text; true;) {
    const std::size_t space = rest.find(' ');
    marked += rest.substr(0, space);
    if (space == std::string_view::npos) break;
    marked += cut.pattern;
    rest.remove_prefix(space + 1);
  }
  const bool wanted = cut.prepend == PrependScheme::kAlways || (cut.prepend == PrependScheme::kFirst && piece.first);
  if (wanted && !piece.continues && !marked.starts_with(cut.pattern)) marked.insert(0, cut.pattern);
  Piece changed = piece;
  changed.text = work.changed.emplace_back(std::move(marked));
  work.next.push_back(changed);
}

Status PreTokenizer::Step::apply(const Piece& piece, PieceWorkspace& work) const {
  if (!pattern.empty()) {
    work.matches.clear();
    PAGODA_TRY(pattern.front().find_all(piece.text, work.match, work.matches));
    apply_matches(piece, work);
  } else if (cut.kind == Kind::kByteDigits) {
    cut_byte_digits(piece, work.next);
  } else if (cut.kind == Kind::kFixedLength) {
    cut_fixed_length(piece, cut.length, work.next);
  } else if (cut.kind == Kind::kMarkSpaces) {
    mark_spaces(piece, work);
  } else if (cut.kind == Kind::kPrefixSpace) {
    Piece changed = piece;
    if (!piece.continues && !piece.text.starts_with(' ')) {
      changed.text = work.changed.emplace_back(" " + std::string(piece.text));
    }
    work.next.push_back(changed);
  } else {
    std::string written;
    for (const char c : piece.text) written += byte_level_character(static_cast<unsigned char>(c));
    Piece changed = piece;
    changed.text = work.changed.emplace_back(std::move(written));
    work.next.push_back(changed);
  }
  return Ok{};
}

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(const PreTokenizerRules& rules) {
  std::vector<Step> steps;
  for (const Cut& cut : rules.cuts) {
    Step& step = steps.emplace_back();
    step.cut = cut;
    if (cut.kind == Kind::kPattern) step.pattern.push_back(PAGODA_TRY(Pattern::compile(cut.pattern)));
    if (cut.kind == Kind::kLiteral) step.pattern.push_back(PAGODA_TRY(Pattern::literal(cut.pattern)));
    if (cut.kind == Kind::kDigitGroups) step.pattern.push_back(PAGODA_TRY(Pattern::compile(R"(\d++)")));
    if (cut.kind == Kind::kDigitGroupsWord) step.pattern.push_back(PAGODA_TRY(Pattern::compile(R"(\d++(?!\w))")));
  }
  return PreTokenizer(std::move(steps));
}

Status PreTokenizer::split(std::string_view text, bool at_start, PieceWorkspace& work) const {
  work.pieces.clear();
  work.changed.clear();
  bool after_bad = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t valid = valid_utf8_length(text.substr(at));
    if (valid > 0) {
      work.pieces.push_back({.text = text.substr(at, valid), .continues = after_bad, .first = at_start && at == 0});
    }
    at += valid;
    if (at == text.size()) break;
    const std::size_t bad = read_utf8(text.substr(at)).length;
    work.pieces.push_back({.text = text.substr(at, bad), .fixed = true});
    at += bad;
    after_bad = true;
  }
  for (const Step& step : steps_) {
    work.next.clear();
    for (const Piece& piece : work.pieces) {
      if (piece.fixed && step.cut.kind != Kind::kByteCharacters) {
        work.next.push_back(piece);
      } else {
        PAGODA_TRY(step.apply(piece, work));
      }
    }
    work.pieces.swap(work.next);
  }
  return Ok{};
}

Result<std::vector<std::string_view>> PreTokenizer::split(std::string_view text) const {
  PieceWorkspace work;
  PAGODA_TRY(split(text, true, work));
  std::vector<std::string_view> out;
  for (const Piece& piece : work.pieces) out.push_back(piece.text);
  return out;
}

}  // namespace pagoda::text
