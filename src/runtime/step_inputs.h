#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder.h"
#include "model/plan.h"
#include "sched/batch.h"

namespace pagoda::runtime {

/// The fixed buffers that a step's kernels read, filled from a Batch before each step. Their addresses never change.
class StepInputs {
 public:
  /// For at most plan.options.max_rows rows of max_step_tokens tokens together.
  explicit StepInputs(const model::Plan& plan);

  /// Copies what changes. `wanted` are the tokens whose logits are needed: lent until the next write. `last_ids` has
  /// the id that each slot drew last, for rows whose first id only the device knows. A batch over the plan's limits or
  /// with ids outside the vocabulary is our own fault.
  void write(const sched::Batch& batch, std::span<const std::int64_t> wanted, std::span<const std::int32_t> last_ids);

  /// Valid until the next write; equal for equal numbers of rows and tokens.
  const model::DecoderInputs& get() const { return inputs_; }
  /// The inputs of a step of `rows` rows of one token each, whatever they hold later: for capture.
  model::DecoderInputs decode_inputs(std::int64_t rows) const;

 private:
  struct Group {
    std::vector<std::int32_t> block_tables;  // (max_rows, max_blocks)
    std::vector<std::int64_t> write_slots;   // (max tokens)
  };

  std::int64_t vocab_;
  std::int64_t max_blocks_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> positions_;
  std::vector<std::int64_t> row_offsets_;
  std::vector<std::int64_t> row_starts_;
  std::vector<Group> groups_;
  std::vector<kernels::GroupInputs> group_inputs_;
  model::DecoderInputs inputs_;
};

}  // namespace pagoda::runtime
