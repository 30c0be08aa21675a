// What sampling remembers of each slot, and the draw of a row's token from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/sample/sample.h"
#include "runtime/runner.h"

namespace pagoda::runtime {

/// Error: kInvalidArgument, naming the parameter, what was found and what is allowed.
Status check_sampling(const SamplingParams& params, std::int64_t vocab);

/// What sampling does for a sequence, once every default is known.
struct SlotSampling {
  kernels::SampleSettings settings;
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::int32_t> end_ids;
  std::int64_t first_end = 0;  ///< position from which an end may be drawn
  std::int32_t num_best = -1;  ///< best log-probabilities beside the drawn token's; -1: not even that one's
  std::int32_t num_prompt_best = 0;
};

/// `never_drawn`, ascending, get a bias of −∞. Error: check_sampling's; an id outside the vocabulary; a bias of one
/// that is never drawn.
Result<SlotSampling> resolve_sampling(const SlotSetup& setup, std::int64_t vocab,
                                      std::span<const std::int32_t> never_drawn = {});

/// Memory of one worker. T is the type of logits.
template <class T>
struct RowScratch {
  RowScratch(std::int64_t vocab, device::CpuIsa isa) : draw(vocab, isa), row(static_cast<std::size_t>(vocab)) {}
  kernels::DrawScratch draw;
  std::vector<T> row;
};

class Sampler {
 public:
  Sampler(std::int64_t vocab, std::int64_t context, std::int32_t slots, std::vector<std::int32_t> never_drawn = {});

  /// Error: resolve_sampling's.
  Status set_slot(std::int32_t slot, const SlotSetup& setup);
  void clear_slot(std::int32_t slot);

  /// As SlotSampling's.
  std::int32_t num_best(std::int32_t slot) const { return at(slot).sampling.num_best; }
  std::int32_t num_prompt_best(std::int32_t slot) const { return at(slot).sampling.num_prompt_best; }

  /// Draws the token for `position` from the slot's raw logits and counts it as output. `best` has num_best places.
  /// May run for several slots at once, with a scratch each.
  template <class T>
  void sample(std::int32_t slot, std::int64_t position, std::span<const T> logits, RowScratch<T>& scratch,
              std::span<TokenLogprob> best, RowResult& result);

 private:
  struct Slot {
    SlotSampling sampling;
    std::vector<kernels::SeenToken> seen;
    std::vector<std::int32_t> seen_at;  // (vocab) place in `seen`, or -1; empty unless penalties ask for it
  };

  Slot& at(std::int32_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  const Slot& at(std::int32_t slot) const { return slots_[static_cast<std::size_t>(slot)]; }
  static void count(Slot& slot, std::int32_t id, bool output);

  std::int64_t vocab_;
  std::int64_t context_;
  std::vector<std::int32_t> never_drawn_;
  std::vector<Slot> slots_;
};

}  // namespace pagoda::runtime
