#include "model/decoder.h"

#include <algorithm>

#include "kernels/embed/embed.h"

namespace pagoda::model {
namespace {

constexpr std::int64_t kAlignment = 64;

/// Tables of rotations, one for all layers that turn alike.
class RopeTables {
 public:
  RopeTables(const Weights& weights, std::int64_t positions) : positions_(positions) {
    std::int64_t size = 0;
    const float* divisors = weights.vector(Role::kRopeDivisors, -1, &size);
    if (divisors != nullptr) divisors_.assign(divisors, divisors + size);
  }

  std::shared_ptr<const kernels::RopeTable> get(kernels::RopeSpec spec) {
    if (spec.kind == kernels::RopeKind::kNone) return nullptr;
    spec.frequency_divisors = divisors_;
    for (const auto& table : tables_) {
      if (table->spec() == spec) return table;
    }
    tables_.push_back(std::make_shared<const kernels::RopeTable>(spec, positions_));
    return tables_.back();
  }

 private:
  std::int64_t positions_;
  std::vector<double> divisors_;
  std::vector<std::shared_ptr<const kernels::RopeTable>> tables_;
};

template <class Chosen, class Weights>
auto prepare_stage(const Chosen& chosen, const Weights& weights, const Plan& plan) {
  return chosen.kernel->prepare(chosen.problem, weights, plan.caps);
}

}  // namespace

/// Builds a decoder part by part.
class Decoder::Preparation {
 public:
  Preparation(const Plan& plan, const Weights& weights)
      : plan_(plan), weights_(weights), ropes_(weights, plan.options.context) {}

  Result<Decoder> run(std::span<const kernels::KvPages> pages) {
    decoder_.activation_ = plan_.activation;
    decoder_.hidden_size_ = plan_.spec.hidden;
    decoder_.max_tokens_ = plan_.options.max_step_tokens;
    decoder_.embedding_scale_ = plan_.spec.embedding_scale;
    decoder_.embedding_ = weights_.matrix(Role::kEmbedding, -1);
    PAGODA_TRY(allocate());
    for (std::int32_t i = 0; i < std::ssize(plan_.spec.layers); ++i) {
      decoder_.blocks_.push_back(PAGODA_TRY(block(i)));
      decoder_.blocks_.back().pages = pages[static_cast<std::size_t>(i)];
    }
    const Role head = plan_.spec.tied_head ? Role::kEmbedding : Role::kHead;
    const kernels::HeadWeights weights{.norm = {.weight = weights_.vector(Role::kFinalNorm, -1)},
                                       .product = weights_.matrix(head, -1)};
    decoder_.head_ = PAGODA_TRY(prepare_stage(plan_.head, weights, plan_));
    return std::move(decoder_);
  }

 private:
  Status allocate() {
    std::int64_t query = 0, attended = 0, activated = 0;
    for (const LayerSpec& layer : plan_.spec.layers) {
      query = std::max(query, layer.attention.heads * layer.attention.key_dim);
      attended = std::max(attended, layer.attention.heads * layer.attention.value_dim);
      activated = std::max(activated, layer.feed_forward.width);
    }
    const std::int64_t tokens = plan_.options.max_step_tokens;
    const std::int64_t rows = plan_.head.problem.product.max_m;
    const std::int64_t element = tensor::size_of(plan_.activation);
    const auto bytes = [&](std::int64_t count, std::int64_t width) {
      return round_up(count * width * element, kAlignment);
    };
    const std::int64_t sizes[] = {bytes(tokens, plan_.spec.hidden),
                                  bytes(tokens, query),
                                  bytes(tokens, attended),
                                  bytes(tokens, activated),
                                  bytes(rows, plan_.spec.hidden),
                                  bytes(rows, plan_.spec.vocab),
                                  plan_.scratch_bytes};
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) total += size;
    decoder_.memory_ = PAGODA_TRY(HostBuffer::allocate(total, "the buffers of a step"));
    std::byte* at = decoder_.memory_.data();
    std::byte* places[std::size(sizes)];
    for (std::size_t i = 0; i < std::size(sizes); at += sizes[i++]) places[i] = at;
    decoder_.residual_ = places[0];
    decoder_.query_ = places[1];
    decoder_.attended_ = places[2];
    decoder_.activated_ = places[3];
    decoder_.hidden_ = decoder_.view(places[4], rows, plan_.spec.hidden);
    decoder_.logits_ = decoder_.view(places[5], rows, plan_.spec.vocab);
    decoder_.scratch_ = places[6];
    return Ok{};
  }

  Result<Block> block(std::int32_t layer) {
    const LayerPlan& plan = plan_.layers[static_cast<std::size_t>(layer)];
    const AttentionSpec& spec = plan_.spec.layers[static_cast<std::size_t>(layer)].attention;
    Block block;
    block.cache_group = static_cast<std::size_t>(spec.cache_group);
    block.query_width = spec.heads * spec.key_dim;
    block.value_width = spec.heads * spec.value_dim;
    block.ffn_width = plan.ffn_in.problem.activation.width;
    const auto vector = [&](Role role) { return weights_.vector(role, layer); };
    const auto matrix = [&](Role role, Role bias) { return weights_.matrix(role, layer, bias); };

    kernels::AttentionInWeights in;
    in.norm.weight = vector(Role::kAttentionNorm);
    in.product = {matrix(Role::kQuery, Role::kQueryBias), matrix(Role::kKey, Role::kKeyBias),
                  matrix(Role::kValue, Role::kValueBias)};
    in.post = {
        .query_norm = vector(Role::kQueryNorm), .key_norm = vector(Role::kKeyNorm), .rope = ropes_.get(spec.rope)};
    block.attention_in = PAGODA_TRY(prepare_stage(plan.attention_in, in, plan_));

    const kernels::AttentionWeights attention{.sinks = vector(Role::kSinks)};
    block.attention = PAGODA_TRY(prepare_stage(plan.attention, attention, plan_));

    const kernels::SublayerOutWeights out{.product = matrix(Role::kAttentionOut, Role::kAttentionOutBias),
                                          .residual = {.norm = vector(Role::kAttentionPostNorm)}};
    block.attention_out = PAGODA_TRY(prepare_stage(plan.attention_out, out, plan_));

    kernels::FfnInWeights ffn;
    ffn.norm.weight = vector(Role::kFeedForwardNorm);
    ffn.product = {matrix(Role::kGate, Role::kGateBias), matrix(Role::kUp, Role::kUpBias)};
    block.ffn_in = PAGODA_TRY(prepare_stage(plan.ffn_in, ffn, plan_));

    const kernels::SublayerOutWeights down{.product = matrix(Role::kDown, Role::kDownBias),
                                           .residual = {.norm = vector(Role::kFeedForwardPostNorm)}};
    block.ffn_out = PAGODA_TRY(prepare_stage(plan.ffn_out, down, plan_));
    return block;
  }

  const Plan& plan_;
  const Weights& weights_;
  RopeTables ropes_;
  Decoder decoder_;
};

Result<Decoder> Decoder::prepare(const Plan& plan, const Weights& weights, std::span<const kernels::KvPages> pages) {
  PAGODA_CHECK(pages.size() == plan.spec.layers.size(), "{} sets of pages", pages.size());
  return Preparation(plan, weights).run(pages);
}

tensor::MatrixView Decoder::view(std::byte* data, std::int64_t rows, std::int64_t cols) const {
  return {.data = data, .dtype = activation_, .rows = rows, .cols = cols, .stride = cols};
}

void Decoder::forward(const DecoderInputs& inputs, device::Stream& stream) const {
  const std::int64_t tokens = inputs.step.num_tokens;
  kernels::embed(embedding_,
                 {.ids = inputs.ids, .output = view(residual_, tokens, hidden_size_), .scale = embedding_scale_},
                 stream);
  for (const Block& block : blocks_) forward(block, inputs, stream);
}

void Decoder::forward(const Block& block, const DecoderInputs& inputs, device::Stream& stream) const {
  const std::int64_t tokens = inputs.step.num_tokens;
  const kernels::GroupInputs& group = inputs.groups[block.cache_group];
  const tensor::MatrixView residual = view(residual_, tokens, hidden_size_);
  const tensor::MatrixView query = view(query_, tokens, block.query_width);
  const tensor::MatrixView attended = view(attended_, tokens, block.value_width);
  const tensor::MatrixView activated = view(activated_, tokens, block.ffn_width);
  block.attention_in.launch({.residual = residual,
                             .query = query,
                             .step = inputs.step,
                             .group = group,
                             .pages = block.pages,
                             .scratch = scratch_},
                            stream);
  block.attention.launch({.query = query,
                          .output = attended,
                          .step = inputs.step,
                          .group = group,
                          .pages = block.pages,
                          .scratch = scratch_},
                         stream);
  block.attention_out.launch({.input = attended, .residual = residual, .scratch = scratch_}, stream);
  block.ffn_in.launch({.residual = residual, .output = activated, .scratch = scratch_}, stream);
  block.ffn_out.launch({.input = activated, .residual = residual, .scratch = scratch_}, stream);
}

void Decoder::head(const std::int64_t* wanted, std::int64_t count, device::Stream& stream) const {
  tensor::MatrixView hidden = hidden_;
  tensor::MatrixView logits = logits_;
  hidden.rows = logits.rows = count;
  head_.launch({.residual = view(residual_, max_tokens_, hidden_size_),
                .wanted = wanted,
                .num_wanted = count,
                .hidden = hidden,
                .logits = logits,
                .scratch = scratch_},
               stream);
}

}  // namespace pagoda::model
