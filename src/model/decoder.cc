#include "model/decoder.h"

#include <algorithm>
#include <numeric>

namespace pagoda::model {
namespace {

constexpr std::int64_t kAlignment = 256;

/// Tables of rotations, one for all layers that turn alike.
class RopeTables {
 public:
  RopeTables(const Weights& weights, std::int64_t positions, device::Device& device)
      : positions_(positions),
        divisors_(weights.rope_divisors().begin(), weights.rope_divisors().end()),
        device_(device) {}

  struct Entry {
    std::shared_ptr<const kernels::RopeTable> table;
    const float* rows = nullptr;  // on a GPU
  };

  Result<Entry> get(kernels::RopeSpec spec) {
    if (spec.kind == kernels::RopeKind::kNone) return Entry{};
    spec.frequency_divisors = divisors_;
    for (const Entry& entry : entries_) {
      if (entry.table->spec() == spec) return entry;
    }
    Entry entry{.table = std::make_shared<const kernels::RopeTable>(spec, positions_), .rows = nullptr};
    if (device_.caps().kind == device::DeviceKind::kCuda) {
      const std::vector<float> rows = entry.table->rows();
      const auto bytes = std::ssize(rows) * static_cast<std::int64_t>(sizeof(float));
      memory_.push_back(PAGODA_TRY(device_.allocate(bytes, "the tables of rotations")));
      device_.upload(memory_.back().data(), rows.data(), bytes);
      entry.rows = reinterpret_cast<const float*>(memory_.back().data());
    }
    entries_.push_back(entry);
    return entry;
  }

  std::vector<device::Memory> take_memory() { return std::move(memory_); }

 private:
  std::int64_t positions_;
  std::vector<double> divisors_;
  device::Device& device_;
  std::vector<Entry> entries_;
  std::vector<device::Memory> memory_;
};

template <class Chosen, class Weights>
auto prepare_stage(const Chosen& chosen, const Weights& weights, device::Device& device) {
  return chosen.kernel->prepare(chosen.problem, weights, device);
}

}  // namespace

/// Builds a decoder part by part.
class Decoder::Preparation {
 public:
  Preparation(const Plan& plan, const Weights& weights, device::Device& device)
      : plan_(plan), weights_(weights), device_(device), ropes_(weights, plan.options.context, device) {}

  Result<Decoder> run(std::span<const kernels::KvPages> pages) {
    decoder_.activation_ = plan_.activation;
    decoder_.residual_dtype_ = plan_.residual;
    decoder_.hidden_size_ = plan_.spec.hidden;
    decoder_.max_tokens_ = plan_.options.max_step_tokens;
    decoder_.embedding_scale_ = plan_.spec.embedding_scale;
    decoder_.embed_ = PAGODA_TRY(kernels::prepare_embed(weights_.matrix(Role::kEmbedding, -1), device_));
    decoder_.gather_ = PAGODA_TRY(kernels::prepare_gather_rows(device_));
    PAGODA_TRY(allocate());
    for (std::size_t g = 0; g < decoder_.schedules_.size(); ++g) {
      decoder_.schedules_[g].step =
          PAGODA_TRY(kernels::prepare_attention_schedule(attention_of(g), decoder_.schedules_[g].work, device_));
    }
    for (std::int32_t i = 0; i < std::ssize(plan_.spec.layers); ++i) {
      decoder_.blocks_.push_back(PAGODA_TRY(block(i)));
      decoder_.blocks_.back().pages = pages[static_cast<std::size_t>(i)];
    }
    const Role head = plan_.spec.tied_head ? Role::kEmbedding : Role::kHead;
    const kernels::HeadWeights weights{.norm = {.weight = weights_.vector(Role::kFinalNorm, -1)},
                                       .product = weights_.matrix(head, -1)};
    decoder_.head_ = PAGODA_TRY(prepare_stage(plan_.head, weights, device_));
    decoder_.tables_ = ropes_.take_memory();
    return std::move(decoder_);
  }

 private:
  /// That of a cache group's first layer: the plan has seen to it that all its layers' are alike.
  const kernels::AttentionProblem& attention_of(std::size_t group) const {
    const auto layer = static_cast<std::size_t>(plan_.spec.cache_groups[group].layers.front());
    return plan_.layers[layer].attention.problem;
  }

  Status allocate() {
    std::int64_t query = 0, attended = 0, activated = 0;
    for (const LayerSpec& layer : plan_.spec.layers) {
      query = std::max(query, layer.attention.heads * layer.attention.key_dim);
      attended = std::max(attended, layer.attention.heads * layer.attention.value_dim);
      activated = std::max(activated, layer.feed_forward.width);
    }
    const std::int64_t tokens = plan_.options.max_step_tokens;
    const std::int64_t rows = plan_.head.problem.product.max_m;
    const auto bytes = [&](std::int64_t count, std::int64_t width, tensor::DType dtype) {
      return round_up(count * width * tensor::size_of(dtype), kAlignment);
    };
    std::vector<std::int64_t> sizes = {
        bytes(tokens, plan_.spec.hidden, plan_.residual), bytes(tokens, query, plan_.activation),
        bytes(tokens, attended, plan_.activation),        bytes(tokens, activated, plan_.activation),
        bytes(rows, plan_.spec.hidden, plan_.activation), bytes(rows, plan_.spec.vocab, plan_.residual),
        round_up(plan_.scratch_bytes, kAlignment)};
    std::size_t update = 0;
    for (const LayerPlan& layer : plan_.layers) {
      update = std::max({update, kernels::residual_update_bytes(layer.attention_out.problem, plan_.caps),
                         kernels::residual_update_bytes(layer.ffn_out.problem, plan_.caps)});
    }
    sizes.push_back(round_up(static_cast<std::int64_t>(update), kAlignment));
    decoder_.schedules_.resize(plan_.spec.cache_groups.size());
    for (std::size_t g = 0; g < decoder_.schedules_.size(); ++g) {
      const std::size_t work = kernels::attention_work_bytes(attention_of(g), plan_.caps);
      sizes.push_back(round_up(static_cast<std::int64_t>(work), kAlignment));
    }
    const std::int64_t gathered = plan_.most_gathered();
    const AttentionSpec& last = plan_.spec.layers.back().attention;
    sizes.push_back(bytes(gathered, plan_.spec.hidden, plan_.residual));
    sizes.push_back(bytes(gathered, last.heads * last.value_dim, plan_.activation));
    sizes.push_back(bytes(gathered, 1, tensor::DType::kI64));
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) total += size;
    decoder_.memory_ = PAGODA_TRY(device_.allocate(total, "the buffers of a step"));
    std::byte* at = decoder_.memory_.data();
    std::vector<std::byte*> places;
    for (const std::int64_t size : sizes) {
      places.push_back(at);
      at += size;
    }
    for (std::size_t g = 0; g < decoder_.schedules_.size(); ++g) decoder_.schedules_[g].work = places[8 + g];
    decoder_.residual_ = places[0];
    decoder_.query_ = places[1];
    decoder_.attended_ = places[2];
    decoder_.activated_ = places[3];
    decoder_.hidden_ = decoder_.view(places[4], rows, plan_.spec.hidden);
    decoder_.hidden_.dtype = kernels::hidden_type(plan_.head.problem, plan_.caps);
    decoder_.logits_ = decoder_.view(places[5], rows, plan_.spec.vocab);
    decoder_.logits_.dtype = plan_.residual;
    decoder_.scratch_ = places[6];
    if (update > 0) decoder_.update_ = places[7];
    const std::size_t rest = 8 + decoder_.schedules_.size();
    decoder_.most_gathered_ = gathered;
    decoder_.gathered_residual_ = places[rest];
    decoder_.gathered_output_ = places[rest + 1];
    decoder_.gathered_rows_ = reinterpret_cast<std::int64_t*>(places[rest + 2]);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(gathered));
    std::iota(numbers.begin(), numbers.end(), 0);
    device_.upload(places[rest + 2], numbers.data(), gathered * tensor::size_of(tensor::DType::kI64));
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
    const RopeTables::Entry rope = PAGODA_TRY(ropes_.get(spec.rope));
    in.post = {.query_norm = vector(Role::kQueryNorm),
               .key_norm = vector(Role::kKeyNorm),
               .rope = rope.table,
               .rope_rows = rope.rows};
    block.attention_in = PAGODA_TRY(prepare_stage(plan.attention_in, in, device_));

    const kernels::AttentionWeights attention{.sinks = vector(Role::kSinks)};
    block.attention = PAGODA_TRY(prepare_stage(plan.attention, attention, device_));

    const kernels::SublayerOutWeights out{.product = matrix(Role::kAttentionOut, Role::kAttentionOutBias),
                                          .residual = {.norm = vector(Role::kAttentionPostNorm)}};
    block.attention_out = PAGODA_TRY(prepare_stage(plan.attention_out, out, device_));

    kernels::FfnInWeights ffn;
    ffn.norm.weight = vector(Role::kFeedForwardNorm);
    ffn.product = {matrix(Role::kGate, Role::kGateBias), matrix(Role::kUp, Role::kUpBias)};
    block.ffn_in = PAGODA_TRY(prepare_stage(plan.ffn_in, ffn, device_));

    const kernels::SublayerOutWeights down{.product = matrix(Role::kDown, Role::kDownBias),
                                           .residual = {.norm = vector(Role::kFeedForwardPostNorm)}};
    block.ffn_out = PAGODA_TRY(prepare_stage(plan.ffn_out, down, device_));
    return block;
  }

  const Plan& plan_;
  const Weights& weights_;
  device::Device& device_;
  RopeTables ropes_;
  Decoder decoder_;
};

Result<Decoder> Decoder::prepare(const Plan& plan, const Weights& weights, std::span<const kernels::KvPages> pages,
                                 device::Device& device) {
  PAGODA_CHECK(pages.size() == plan.spec.layers.size(), "{} sets of pages", pages.size());
  return Preparation(plan, weights, device).run(pages);
}

tensor::MatrixView Decoder::residual(std::byte* data, std::int64_t rows) const {
  return {.data = data, .dtype = residual_dtype_, .rows = rows, .cols = hidden_size_, .stride = hidden_size_};
}

tensor::MatrixView Decoder::view(std::byte* data, std::int64_t rows, std::int64_t cols) const {
  return {.data = data, .dtype = activation_, .rows = rows, .cols = cols, .stride = cols};
}

void Decoder::forward(const DecoderInputs& inputs, device::Stream& stream) const {
  const std::int64_t tokens = inputs.step.num_tokens;
  embed_.launch({.ids = inputs.ids,
                 .output = residual(residual_, tokens),
                 .scale = embedding_scale_,
                 .last_ids = inputs.last_ids},
                stream);
  for (std::size_t g = 0; g < schedules_.size(); ++g) {
    schedules_[g].step.launch({.step = inputs.step, .group = inputs.groups[g]}, stream);
  }
  kernels::ResidualUpdate update{.memory = reinterpret_cast<float*>(update_)};
  for (const Block& block : blocks_) forward(block, inputs, update, &block == &blocks_.back(), stream);
}

void Decoder::forward(const Block& block, const DecoderInputs& inputs, kernels::ResidualUpdate& update, bool last,
                      device::Stream& stream) const {
  const std::int64_t tokens = inputs.step.num_tokens;
  kernels::GroupInputs group = inputs.groups[block.cache_group];
  group.work = schedules_[block.cache_group].work;
  const tensor::MatrixView query = view(query_, tokens, block.query_width);
  Attended rows{.residual = residual(residual_, tokens), .output = view(attended_, tokens, block.value_width)};
  block.attention_in.launch({.residual = rows.residual,
                             .query = query,
                             .step = inputs.step,
                             .group = group,
                             .pages = block.pages,
                             .scratch = scratch_,
                             .update = &update},
                            stream);
  const bool narrows = last && gathers(inputs);
  if (narrows && inputs.num_wanted == 0) return;  // all that is left of the step are its keys and values
  block.attention.launch({.query = query,
                          .output = rows.output,
                          .step = inputs.step,
                          .group = group,
                          .pages = block.pages,
                          .scratch = scratch_},
                         stream);
  if (narrows) rows = gather(inputs, rows, stream);
  const tensor::MatrixView activated = view(activated_, rows.residual.rows, block.ffn_width);
  block.attention_out.launch({.input = rows.output, .residual = rows.residual, .scratch = scratch_, .update = &update},
                             stream);
  block.ffn_in.launch({.residual = rows.residual, .output = activated, .scratch = scratch_, .update = &update}, stream);
  block.ffn_out.launch(
      {.input = activated, .residual = rows.residual, .scratch = scratch_, .update = last ? nullptr : &update}, stream);
}

bool Decoder::gathers(const DecoderInputs& inputs) const {
  const kernels::StepInputs& step = inputs.step;
  return step.num_tokens > step.num_rows && inputs.num_wanted < step.num_tokens && inputs.num_wanted <= most_gathered_;
}

Decoder::Attended Decoder::gather(const DecoderInputs& inputs, const Attended& all, device::Stream& stream) const {
  const Attended gathered{.residual = residual(gathered_residual_, inputs.num_wanted),
                          .output = view(gathered_output_, inputs.num_wanted, all.output.cols)};
  gather_.launch({.input = all.residual, .output = gathered.residual, .rows = inputs.wanted}, stream);
  gather_.launch({.input = all.output, .output = gathered.output, .rows = inputs.wanted}, stream);
  return gathered;
}

void Decoder::head(const DecoderInputs& inputs, std::int64_t first, std::int64_t count, device::Stream& stream) const {
  PAGODA_CHECK(first + count <= inputs.num_wanted && count <= head_rows(), "tokens {} … {} of {} that are wanted",
               first, first + count, inputs.num_wanted);
  const bool gathered = gathers(inputs);
  tensor::MatrixView hidden = hidden_;
  tensor::MatrixView logits = logits_;
  hidden.rows = logits.rows = count;
  head_.launch(
      {.residual = gathered ? residual(gathered_residual_, inputs.num_wanted) : residual(residual_, max_tokens_),
       .wanted = (gathered ? gathered_rows_ : inputs.wanted) + first,
       .num_wanted = count,
       .hidden = hidden,
       .logits = logits,
       .scratch = scratch_},
      stream);
}

}  // namespace pagoda::model
