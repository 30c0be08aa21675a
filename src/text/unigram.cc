#include "text/unigram.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/utf8.h"

namespace pagoda::text {
namespace {

constexpr std::size_t kMaxPieceBytes = 1 << 10;
constexpr double kUnknownPenalty = 10;  // below the worst piece

}  // namespace

UnigramEncoder::UnigramEncoder(const Vocabulary& vocabulary, std::vector<double> scores, std::int32_t unknown,
                               bool byte_fallback)
    : vocabulary_(&vocabulary), scores_(std::move(scores)), unknown_(unknown), byte_fallback_(byte_fallback) {
  const auto worst = std::ranges::min_element(scores_);
  unknown_score_ = (worst == scores_.end() ? 0 : *worst) - kUnknownPenalty;
  for (std::int32_t id = 0; id < std::ssize(scores_); ++id) {
    const TokenType type = vocabulary.type(id);
    const bool plain = type == TokenType::kNormal || type == TokenType::kUnused;
    if (plain && !vocabulary.texts[id].empty()) tree_.add(vocabulary.texts[id], id);
  }
}

Result<std::unique_ptr<const FragmentEncoder>> UnigramEncoder::create(const Vocabulary& vocabulary,
                                                                      std::vector<double> scores, std::int32_t unknown,
                                                                      bool byte_fallback) {
  for (std::int32_t id = 0; id < std::ssize(scores); ++id) {
    if (vocabulary.texts[id].size() > kMaxPieceBytes) {
      return fail(ErrorCode::kTokenizerInvalid, "piece {} has {} bytes; at most {} are allowed", id,
                  vocabulary.texts[id].size(), kMaxPieceBytes);
    }
  }
  return std::unique_ptr<const FragmentEncoder>(
      new UnigramEncoder(vocabulary, std::move(scores), unknown, byte_fallback));
}

Result<std::vector<UnigramEncoder::Place>> UnigramEncoder::best_ways(std::string_view text) const {
  std::vector<Place> places(text.size() + 1);
  const auto improve = [&](std::size_t from, std::size_t to, std::int32_t id, double score) {
    const double whole = score + places[from].score;
    if (places[to].from >= 0 && whole <= places[to].score) return;
    places[to] = {whole, static_cast<std::int64_t>(from), id};
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t character = at + read_utf8(text.substr(at)).length;
    bool covered = false;
    tree_.for_each_at(text, at, [&](std::int32_t id, std::size_t end) {
      improve(at, end, id, scores_[static_cast<std::size_t>(id)]);
      covered = covered || end == character;
    });
    if (!covered) improve(at, character, -1, unknown_score_);
    at = character;
  }
  return places;
}

Status UnigramEncoder::add_unknown(std::string_view text, std::vector<std::int32_t>& out) const {
  const auto id_of = [&](char c) { return vocabulary_->byte_ids[static_cast<unsigned char>(c)]; };
  if (byte_fallback_ && std::ranges::all_of(text, [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : text) out.push_back(id_of(c));
    return Ok{};
  }
  if (unknown_ < 0) {
    return fail(ErrorCode::kInvalidArgument, "the vocabulary cannot say the text: it has no token for the unknown");
  }
  out.push_back(unknown_);
  return Ok{};
}

Status UnigramEncoder::encode(std::string_view text, MergeWorkspace& /*work*/, std::vector<std::int32_t>& out) const {
  const std::vector<Place> places = PAGODA_TRY(best_ways(text));
  std::vector<std::size_t> ends;
  for (std::size_t at = text.size(); at > 0; at = static_cast<std::size_t>(places[at].from)) ends.push_back(at);
  std::size_t unknown_begin = text.size();  // of a run of unknown characters
  bool waits = false;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Place& place = places[*end];
    const auto begin = static_cast<std::size_t>(place.from);
    if (place.id < 0) {
      if (!waits) unknown_begin = begin;
      waits = true;
      continue;
    }
    if (waits) PAGODA_TRY(add_unknown(text.substr(unknown_begin, begin - unknown_begin), out));
    waits = false;
    out.push_back(place.id);
  }
  if (waits) PAGODA_TRY(add_unknown(text.substr(unknown_begin), out));
  return Ok{};
}

}  // namespace pagoda::text
