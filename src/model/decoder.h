// The one decoder: every model, on every device, through the stages its plan chose.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/stream.h"
#include "kernels/attention/cuda_attention.h"
#include "kernels/embed/embed.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/kv_store/kv_layout.h"
#include "kernels/step.h"
#include "model/plan.h"
#include "model/weights.h"

namespace pagoda::model {

/// What a step reads, at addresses that stay the same from step to step.
struct DecoderInputs {
  const std::int32_t* ids = nullptr;       ///< (tokens), each inside the vocabulary, or on a GPU: see EmbedArgs
  const std::int32_t* last_ids = nullptr;  ///< by slot; of GPUs
  kernels::StepInputs step;
  std::span<const kernels::GroupInputs> groups;  ///< as ModelSpec::cache_groups
  const std::int64_t* wanted = nullptr;          ///< (num_wanted) tokens that have logits, each once
  std::int64_t num_wanted = 0;
};

/// Stages prepared for weights at their addresses, and the buffers between them. A step allocates nothing, looks up
/// nothing and chooses nothing.
class Decoder {
 public:
  /// Weights, pages (one set a layer) and the device are lent for the decoder's life. Errors: kOutOfMemory,
  /// kDeviceMemory, or what a candidate's prepare fails with.
  static Result<Decoder> prepare(const Plan& plan, const Weights& weights, std::span<const kernels::KvPages> pages,
                                 device::Device& device);

  /// Brings the step's tokens through all layers, into the residual stream; past the last layer's attention only those
  /// whose logits are wanted, if they are few (gathers). step.num_tokens ≤ max_step_tokens.
  void forward(const DecoderInputs& inputs, device::Stream& stream) const;

  /// Logits of inputs.wanted[first] … [first + count) into the first rows of logits() and hidden(); count ≤
  /// head_rows(). `inputs` are those of the last forward.
  void head(const DecoderInputs& inputs, std::int64_t first, std::int64_t count, device::Stream& stream) const;

  std::int64_t head_rows() const { return logits_.rows; }
  const tensor::MatrixView& logits() const { return logits_; }  ///< (head_rows, vocab), f64 or f32
  const tensor::MatrixView& hidden() const { return hidden_; }  ///< (head_rows, hidden), normed; an activation

 private:
  struct Block {
    kernels::AttentionInStep attention_in;
    kernels::AttentionStep attention;
    kernels::SublayerOutStep attention_out;
    kernels::FfnInStep ffn_in;
    kernels::SublayerOutStep ffn_out;
    kernels::KvPages pages;
    std::size_t cache_group = 0;
    std::int64_t query_width = 0;
    std::int64_t value_width = 0;
    std::int64_t ffn_width = 0;
  };
  class Preparation;

  /// What a block's attention hands on.
  struct Attended {
    tensor::MatrixView residual, output;
  };

  /// `update` is what the block before left to be added to the residual stream; a last block leaves nothing.
  void forward(const Block& block, const DecoderInputs& inputs, kernels::ResidualUpdate& update, bool last,
               device::Stream& stream) const;
  /// Whether the last layer goes on with the wanted tokens alone, in rows of their own. Not where each row of the step
  /// has one token: such a step is the same whether or not it is a captured one, which has all rows.
  bool gathers(const DecoderInputs& inputs) const;
  Attended gather(const DecoderInputs& inputs, const Attended& all, device::Stream& stream) const;
  /// The first `rows` rows of a buffer of activations, `cols` wide; of one of the residual stream.
  tensor::MatrixView view(std::byte* data, std::int64_t rows, std::int64_t cols) const;
  tensor::MatrixView residual(std::byte* data, std::int64_t rows) const;

  device::Memory memory_;
  std::vector<device::Memory> tables_;  // rotations, on a GPU
  tensor::DType activation_ = tensor::DType::kF32;
  tensor::DType residual_dtype_ = tensor::DType::kF32;
  std::int64_t hidden_size_ = 0;
  std::int64_t max_tokens_ = 0;
  double embedding_scale_ = 1;
  kernels::EmbedStep embed_;
  /// Of one cache group: what its layers' attention shares in a step.
  struct Schedule {
    kernels::AttentionScheduleStep step;
    std::byte* work = nullptr;
  };
  std::vector<Schedule> schedules_;
  std::vector<Block> blocks_;
  kernels::GatherRowsStep gather_;
  kernels::HeadStep head_;
  std::byte* residual_ = nullptr;
  std::byte* query_ = nullptr;
  std::byte* attended_ = nullptr;
  std::byte* activated_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::byte* update_ = nullptr;  // ResidualUpdate::memory; null on a host
  // Of wanted tokens, most_gathered_ rows each; and the numbers of these rows.
  std::int64_t most_gathered_ = 0;
  std::byte* gathered_residual_ = nullptr;
  std::byte* gathered_output_ = nullptr;
  std::int64_t* gathered_rows_ = nullptr;
  tensor::MatrixView logits_;
  tensor::MatrixView hidden_;
};

}  // namespace pagoda::model
