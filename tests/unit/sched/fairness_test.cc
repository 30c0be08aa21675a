// Decodes first, a bounded quantum of prefill beside them; half of it is the eldest's, the rest goes
// to the shortest.
#include <gtest/gtest.h>

#include "unit/sched/scripted_engine.h"

namespace pagoda::sched {
namespace {

std::vector<kv::GroupConfig> one_group(std::int64_t blocks) {
  return {{.name = "full", .block_size = 8, .block_count = blocks}};
}

TEST(FairnessTest, DecodesHaveARowInEveryStepBesideALongPrefill) {
  ScriptedEngine engine({.context = 6000, .max_running = 4, .token_budget = 640, .prefill_chunk = 100},
                        one_group(1000));
  const SequenceId decoding = engine.add(prompt_of(5), 30);
  engine.step();
  const SequenceId prefilling = engine.add(prompt_of(5000), 1);
  engine.drain();
  EXPECT_EQ(engine.told[decoding].longest_gap, 1);
  EXPECT_EQ(engine.told[prefilling].longest_gap, 1);
  engine.expect_solo_outputs();
}

TEST(FairnessTest, BesideDecodesPrefillsTakeOneQuantum) {
  ScriptedEngine engine({.context = 6000, .max_running = 4, .token_budget = 640, .prefill_chunk = 100},
                        one_group(1000));
  engine.add(prompt_of(5), 30);
  engine.step();
  engine.add(prompt_of(1000), 1);
  engine.add(prompt_of(1000), 1);
  engine.step();
  ASSERT_EQ(engine.last_batch->rows.size(), 3u);
  EXPECT_EQ(engine.last_batch->rows[0].count, 1);  // the decode
  EXPECT_EQ(engine.last_batch->rows[1].count, 50);
  EXPECT_EQ(engine.last_batch->rows[2].count, 50);
}

TEST(FairnessTest, AloneAPrefillTakesChunksUpToTheBudget) {
  ScriptedEngine engine({.context = 6000, .max_running = 4, .token_budget = 250, .prefill_chunk = 100},
                        one_group(1000));
  for (int i = 0; i < 3; ++i) engine.add(prompt_of(1000), 1);
  engine.step();
  ASSERT_EQ(engine.last_batch->rows.size(), 3u);
  EXPECT_EQ(engine.last_batch->rows[0].count, 100);
  EXPECT_EQ(engine.last_batch->rows[1].count, 100);
  EXPECT_EQ(engine.last_batch->rows[2].count, 50);
}

// Prompts of one length are computed one after the other: the first is answered long before the last, none later than
// if all had shared each step.
TEST(FairnessTest, EqualPromptsAreAnsweredInTheirOrder) {
  ScriptedEngine engine({.context = 6000, .max_running = 10, .token_budget = 250, .prefill_chunk = 250},
                        one_group(2000));
  std::vector<SequenceId> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(engine.add(prompt_of(1000), 1));
  engine.drain();
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_LE(engine.told[ids[i]].first_id_step, 4 * (static_cast<std::int64_t>(i) + 1) + 4) << i;
    if (i > 0) {
      EXPECT_GE(engine.told[ids[i]].first_id_step, engine.told[ids[i - 1]].first_id_step) << i;
    }
  }
  EXPECT_EQ(engine.told[ids[9]].first_id_step, 40);
  engine.expect_solo_outputs();
}

// Short ones come all the time: the long one has half of each step, and is never passed by for good.
TEST(FairnessTest, ALongPrefillGetsItsHalfWhateverComes) {
  ScriptedEngine engine({.context = 6000, .max_running = 8, .token_budget = 100, .prefill_chunk = 100},
                        one_group(2000));
  const SequenceId large = engine.add(prompt_of(2000), 1);
  std::vector<SequenceId> small;
  for (int i = 0; i < 39; ++i) {
    for (int k = 0; k < 2; ++k) small.push_back(engine.add(prompt_of(50), 1));
    engine.step();
  }
  engine.drain();
  EXPECT_EQ(engine.told[large].longest_gap, 1);
  EXPECT_LE(engine.told[large].first_id_step, 41);
  // Of two rests the shorter one goes first.
  EXPECT_LE(engine.told[small[0]].first_id_step, 2);
}

TEST(FairnessTest, PriorityComesBeforeBrevity) {
  ScriptedEngine engine({.context = 6000, .max_running = 8, .token_budget = 100, .prefill_chunk = 100},
                        one_group(2000));
  engine.add(prompt_of(3000), 1);
  engine.step();
  const SequenceId brief = engine.add(prompt_of(40), 1);
  const SequenceId urgent = engine.add({.prompt = prompt_of(500), .max_new_tokens = 1, .priority = 1});
  engine.drain();
  EXPECT_LT(engine.told[urgent].first_id_step, engine.told[brief].first_id_step);
}

// A newcomer of 100 tokens beside a prefill of 5,000 that would need 50 steps: its first id comes with its second step.
TEST(FairnessTest, ANewcomerGetsItsTurnBesideALongPrefill) {
  ScriptedEngine engine({.context = 6000, .max_running = 4, .token_budget = 100, .prefill_chunk = 100},
                        one_group(1000));
  const SequenceId large = engine.add(prompt_of(5000), 1);
  for (int i = 0; i < 3; ++i) engine.step();
  const SequenceId newcomer = engine.add(prompt_of(100), 1);
  engine.drain();
  EXPECT_EQ(engine.told[newcomer].first_step, 4);
  EXPECT_EQ(engine.told[newcomer].first_id_step, 5);
  EXPECT_EQ(engine.told[large].first_id_step, 51);  // 5,100 tokens in all: nothing was computed twice
}

TEST(FairnessTest, ASmallRemainderIsAbsorbed) {
  ScriptedEngine engine({.context = 6000, .max_running = 1, .token_budget = 600, .prefill_chunk = 512},
                        one_group(1000));
  const SequenceId within = engine.add(prompt_of(512 + 64), 1);
  const SequenceId beyond = engine.add(prompt_of(512 + 65), 1);
  engine.drain();
  EXPECT_EQ(engine.told[within].first_step, engine.told[within].first_id_step);
  EXPECT_EQ(engine.told[beyond].first_step + 1, engine.told[beyond].first_id_step);
}

// Steps that leave prompt tokens over end at multiples of a tile, decodes among them; nothing is left for a step alone.
TEST(FairnessTest, StepsFillTiles) {
  ScriptedEngine engine({.context = 6000, .max_running = 8, .token_budget = 100, .prefill_chunk = 70, .token_tile = 16},
                        one_group(2000));
  for (int i = 0; i < 3; ++i) engine.add(prompt_of(1), 30);
  engine.step();
  for (const int tokens : {200, 77, 300}) engine.add(prompt_of(tokens), 2);
  // 577 prompt tokens beside three decodes and more: 64 tokens a step, until the rest is no longer a whole step's.
  int steps = 0;
  for (std::int64_t left = 577; left > 70; left -= 61, ++steps) {
    engine.step();
    EXPECT_EQ(engine.last_tokens, 64) << "step " << steps;
  }
  EXPECT_EQ(steps, 9);
  engine.drain();
  engine.expect_solo_outputs();
}

// A chunk that is small beside a tile goes on in whole chunks, not in the token that a tile has left beside decodes.
TEST(FairnessTest, SmallChunksArePassedTiles) {
  ScriptedEngine engine({.context = 600, .max_running = 17, .token_budget = 40, .prefill_chunk = 6, .token_tile = 16},
                        one_group(2000));
  for (int i = 0; i < 15; ++i) engine.add(prompt_of(1), 60);
  engine.step();
  for (const int tokens : {60, 70}) engine.add(prompt_of(tokens), 2);
  for (int i = 0; i < 20; ++i) {
    engine.step();
    EXPECT_EQ(engine.last_tokens, 15 + 6) << "step " << i;
  }
  engine.drain();
  engine.expect_solo_outputs();
}

TEST(FairnessTest, TheBudgetIsNotPassedToAbsorb) {
  ScriptedEngine engine({.context = 6000, .max_running = 1, .token_budget = 512, .prefill_chunk = 512},
                        one_group(1000));
  const SequenceId id = engine.add(prompt_of(520), 1);
  engine.drain();
  EXPECT_EQ(engine.told[id].first_id_step, 2);
}

TEST(FairnessTest, SmallChunksAbsorbInProportion) {
  EXPECT_EQ((Limits{.prefill_chunk = 1024}.absorbed_tokens()), 64);
  EXPECT_EQ((Limits{.prefill_chunk = 512}.absorbed_tokens()), 64);
  EXPECT_EQ((Limits{.prefill_chunk = 17}.absorbed_tokens()), 2);
  EXPECT_EQ((Limits{.prefill_chunk = 1}.absorbed_tokens()), 0);
}

// More decodes than the budget: all take turns, and the prefill comes through after a burst of 8.
TEST(FairnessTest, NobodyStarvesWhenDecodesFillTheBudget) {
  for (const std::int32_t in_flight : {1, 2}) {
    ScriptedEngine engine(
        {.context = 500, .max_running = 9, .token_budget = 3, .prefill_chunk = 2, .steps_in_flight = in_flight},
        one_group(400));
    for (int i = 0; i < 7; ++i) engine.add(prompt_of(1), 200);
    for (int i = 0; i < 5; ++i) engine.step();
    const SequenceId prefilling = engine.add(prompt_of(31), 2);
    engine.drain();
    EXPECT_LE(engine.told[prefilling].longest_gap, 9);
    for (SequenceId id = 1; id <= 7; ++id) EXPECT_LE(engine.told[id].longest_gap, 4) << "sequence " << id;
    EXPECT_LE(engine.told[prefilling].first_id_step, 5 + 2 + 16 * 9);
    engine.expect_solo_outputs();
    engine.expect_idle();
  }
}

}  // namespace
}  // namespace pagoda::sched
