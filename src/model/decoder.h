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
};

/// Stages prepared for weights at their addresses, and the buffers between them. A step allocates nothing, looks up
/// nothing and chooses nothing.
class Decoder {
 public:
  /// Weights, pages (one set a layer) and the device are lent for the decoder's life. Errors: kOutOfMemory,
  /// kDeviceMemory, or what a candidate's prepare fails with.
  static Result<Decoder> prepare(const Plan& plan, const Weights& weights, std::span<const kernels::KvPages> pages,
                                 device::Device& device);

  /// Brings the step's tokens through all layers, into the residual stream. step.num_tokens ≤ max_step_tokens.
  void forward(const DecoderInputs& inputs, device::Stream& stream) const;

  /// Logits of `count` ≤ head_rows() tokens of the last forward, into the first rows of logits() and hidden(). `wanted`
  /// is read when the launch runs.
  void head(const std::int64_t* wanted, std::int64_t count, device::Stream& stream) const;

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

  /// `update` is what the block before left to be added to the residual stream; a last block leaves nothing.
  void forward(const Block& block, const DecoderInputs& inputs, kernels::ResidualUpdate& update, bool last,
               device::Stream& stream) const;
  /// The first `rows` rows of a buffer of activations, `cols` wide; of the residual stream.
  tensor::MatrixView view(std::byte* data, std::int64_t rows, std::int64_t cols) const;
  tensor::MatrixView residual(std::int64_t rows) const;

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
  kernels::HeadStep head_;
  std::byte* residual_ = nullptr;
  std::byte* query_ = nullptr;
  std::byte* attended_ = nullptr;
  std::byte* activated_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::byte* update_ = nullptr;  // ResidualUpdate::memory; null on a host
  tensor::MatrixView logits_;
  tensor::MatrixView hidden_;
};

}  // namespace pagoda::model
