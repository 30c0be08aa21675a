#include "model/plan.h"

#include <algorithm>
#include <bit>

#include "kernels/embed/embed.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/linear/pack.h"

namespace pagoda::model {
namespace {

using kernels::LinearProblem;
using kernels::LinearWeightSpec;

constexpr std::int64_t kScratchAlignment = 64;

Status check_range(std::string_view flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return Ok{};
  return fail_param(ErrorCode::kInvalidArgument, std::string(flag), "{} is {}; it must be from {} to {}", flag, value,
                    least, most);
}

Status check_options(const PlanOptions& options, const ModelSpec& spec, const device::DeviceCaps& caps) {
  PAGODA_TRY(check_range("--block-size", options.block_size, 8, 256));
  if (!std::has_single_bit(static_cast<std::uint32_t>(options.block_size))) {
    return fail_param(ErrorCode::kInvalidArgument, "--block-size", "--block-size is {}; it must be a power of two",
                      options.block_size);
  }
  PAGODA_TRY(check_range("--ctx", options.context, 1, spec.context));
  PAGODA_TRY(check_range("--prefill-chunk", options.max_step_tokens, 1, 1 << 20));
  PAGODA_TRY(check_range("--max-running", options.max_rows, 1, 1 << 16));
  if (caps.kind == device::DeviceKind::kReference && options.kv_dtype != KvDType::kAuto) {
    return fail_param(ErrorCode::kUnsupportedArgument, "--kv-dtype",
                      "the reference keeps keys and values in double: --kv-dtype must be auto");
  }
  if (caps.kind == device::DeviceKind::kCpu && options.kv_dtype == KvDType::kFp8E4m3) {
    return fail_param(ErrorCode::kUnsupportedArgument, "--kv-dtype", "--kv-dtype fp8_e4m3 needs a GPU");
  }
  if (caps.kind != device::DeviceKind::kCuda) return Ok{};
  if (options.precision == kernels::Precision::kHigh) {
    return fail_param(ErrorCode::kUnsupportedArgument, "--precision",
                      "--precision high is the CPU's: {} computes in bf16 with sums in float", caps.name);
  }
  if (options.kv_dtype == KvDType::kF16) {
    return fail_param(ErrorCode::kUnsupportedArgument, "--kv-dtype",
                      "on a GPU keys and values are kept in bf16 or fp8_e4m3, not in f16");
  }
  if (options.kv_dtype == KvDType::kFp8E4m3 && caps.gpu.compute() < 89) {
    return fail_param(ErrorCode::kDeviceUnfit, "--kv-dtype",
                      "--kv-dtype fp8_e4m3 needs compute capability 8.9, and {} has {}.{}", caps.name,
                      caps.gpu.compute_major, caps.gpu.compute_minor);
  }
  return Ok{};
}

/// Makes one plan, field by field.
class Planner {
 public:
  Planner(const ModelSpec& spec, const Binding& binding, const device::DeviceCaps& caps, const PlanOptions& options)
      : binding_(binding) {
    plan_.spec = spec;
    plan_.caps = caps;
    plan_.options = options;
    const bool reference = caps.kind == device::DeviceKind::kReference;
    plan_.precision = reference ? kernels::Precision::kExact : options.precision;
    plan_.residual = reference ? tensor::DType::kF64 : tensor::DType::kF32;
    plan_.activation = on_gpu() ? tensor::DType::kBf16 : plan_.residual;
    plan_.kv_dtype = kv_dtype();
  }

  Result<Plan> make() {
    for (const BoundTensor& tensor : binding_.tensors) {
      plan_.weights.push_back({.tensor = tensor, .format = tensor.entry->format});
    }
    plan_.layers.resize(plan_.spec.layers.size());
    for (std::int32_t i = 0; i < std::ssize(plan_.layers); ++i) PAGODA_TRY(plan_layer(i));
    PAGODA_TRY(plan_head());
    PAGODA_TRY(check_groups());
    for (WeightPlan& weight : plan_.weights) store(weight);
    return std::move(plan_);
  }

 private:
  Status plan_layer(std::int32_t index);
  Status plan_attention(std::int32_t index);
  Status plan_feed_forward(std::int32_t index);
  Status plan_head();
  void store(WeightPlan& weight);
  kernels::KvLayout kv_layout(const AttentionSpec& attention) const;
  Status check_groups() const;

  bool on_gpu() const { return plan_.caps.kind == device::DeviceKind::kCuda; }

  tensor::DType kv_dtype() const {
    switch (plan_.options.kv_dtype) {
      case KvDType::kF16:
        return tensor::DType::kF16;
      case KvDType::kBf16:
        return tensor::DType::kBf16;
      case KvDType::kFp8E4m3:
        return tensor::DType::kFp8E4m3;
      case KvDType::kAuto:
        break;
    }
    if (on_gpu()) return tensor::DType::kBf16;
    return plan_.precision == kernels::Precision::kExact ? tensor::DType::kF64 : tensor::DType::kF16;
  }

  kernels::RmsNormProblem norm() const {
    return {.activation = plan_.activation,
            .hidden = plan_.spec.hidden,
            .epsilon = plan_.spec.norm_epsilon,
            .weight_shift = plan_.spec.norm_weight_shift,
            .any_size = plan_.options.any_size};
  }

  kernels::ResidualProblem residual(const LayerSpec& layer) const {
    return {.activation = plan_.activation,
            .hidden = plan_.spec.hidden,
            .scale = static_cast<float>(layer.residual_scale),
            .norm = layer.norms == NormPlacement::kBoth,
            .epsilon = plan_.spec.norm_epsilon,
            .weight_shift = plan_.spec.norm_weight_shift};
  }

  kernels::QkvPostprocessProblem postprocess(const AttentionSpec& attention) const {
    return {.activation = plan_.activation,
            .num_heads = attention.heads,
            .num_kv_heads = attention.kv_heads,
            .key_dim = attention.key_dim,
            .value_dim = attention.value_dim,
            .norm = attention.qk_norm,
            .epsilon = plan_.spec.norm_epsilon,
            .weight_shift = plan_.spec.norm_weight_shift,
            .rope = attention.rope};
  }

  /// A product of weights of one layer over one input; fills in their layouts.
  Result<LinearProblem> product(std::int32_t layer, std::initializer_list<std::pair<Role, bool>> roles,
                                std::int64_t max_m);

  template <class Problem, class Kernel>
  Status choose(Chosen<Problem, Kernel>& chosen, Problem problem, std::span<const Kernel> candidates,
                std::string_view stage) {
    chosen.problem = std::move(problem);
    chosen.kernel = kernels::choose(candidates, chosen.problem, plan_.caps);
    if (chosen.kernel == nullptr) {
      return fail(ErrorCode::kDeviceUnfit, "no candidate of the stage {} supports this model on {}", stage,
                  plan_.caps.name);
    }
    chosen.scratch_bytes = static_cast<std::int64_t>(chosen.kernel->scratch_bytes(chosen.problem, plan_.caps));
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, round_up(chosen.scratch_bytes, kScratchAlignment));
    return Ok{};
  }

  WeightPlan& weight(Role role, std::int32_t layer) {
    const auto at = std::ranges::find_if(
        plan_.weights, [&](const WeightPlan& each) { return each.tensor.role == role && each.tensor.layer == layer; });
    PAGODA_CHECK(at != plan_.weights.end(), "{} of layer {} is not bound", to_string(role), layer);
    return *at;
  }

  const Binding& binding_;
  Plan plan_;
};

Result<LinearProblem> Planner::product(std::int32_t layer, std::initializer_list<std::pair<Role, bool>> roles,
                                       std::int64_t max_m) {
  LinearProblem problem;
  // Where rounding to 8 bits costs the most, and a second term the least: the head, whose errors nothing evens out and
  // whose speed is that of its bytes, and the first layer, whose errors all others carry on.
  const bool sensitive = layer <= 0;
  problem.precision =
      sensitive && plan_.precision == kernels::Precision::kStandard ? kernels::Precision::kHigh : plan_.precision;
  problem.activation = plan_.activation;
  // The kernels of deterministic plans know no number of rows; so they need no code for one.
  problem.deterministic = plan_.options.deterministic || plan_.options.any_size;
  problem.max_m = max_m;
  for (const auto& [role, has_bias] : roles) {
    const BoundTensor& tensor = weight(role, layer).tensor;
    problem.k = tensor.cols;
    problem.weights[static_cast<std::size_t>(problem.num_weights++)] = {
        .format = tensor.entry->format,
        .layout = nullptr,
        .n = tensor.rows,
        .has_bias = has_bias,
        .ordered = !tensor.entry->column_order().empty(),
        .fp8_input = tensor.entry->fp8_input,
        .row_scales = tensor.entry->row_scales};
  }
  if (kernels::first_linear_kernel(problem, plan_.caps) == nullptr) {
    const io::TensorEntry& entry = *weight(roles.begin()->first, layer).tensor.entry;
    return fail(ErrorCode::kFormatUnsupported, "no candidate of linear reads {} ({}, {} columns) on {}", entry.name,
                entry.format->name, entry.cols(), plan_.caps.name);
  }
  int index = 0;
  for (const auto& [role, has_bias] : roles) {
    weight(role, layer).layout = problem.weights[static_cast<std::size_t>(index++)].layout;
  }
  return problem;
}

kernels::KvLayout Planner::kv_layout(const AttentionSpec& attention) const {
  const auto scale_of = [&](float own) { return plan_.kv_dtype == tensor::DType::kFp8E4m3 && own > 0 ? own : 1.0f; };
  return {.dtype = plan_.kv_dtype,
          .block_size = plan_.options.block_size,
          .kv_heads = attention.kv_heads,
          .key_dim = attention.key_dim,
          .value_dim = attention.value_dim,
          .order = on_gpu() ? kernels::KvOrder::kHeads : kernels::KvOrder::kLanes16,
          .key_scale = scale_of(attention.key_cache_scale),
          .value_scale = scale_of(attention.value_cache_scale)};
}

/// A GPU schedules the attention of a cache group once for all its layers.
Status Planner::check_groups() const {
  if (!on_gpu()) return Ok{};
  for (const CacheGroupSpec& group : plan_.spec.cache_groups) {
    const AttentionSpec& first = plan_.spec.layers[static_cast<std::size_t>(group.layers.front())].attention;
    for (const std::int32_t layer : group.layers) {
      const AttentionSpec& own = plan_.spec.layers[static_cast<std::size_t>(layer)].attention;
      kernels::KvLayout layout = kv_layout(own);  // each layer reads its own scales
      layout.key_scale = kv_layout(first).key_scale;
      layout.value_scale = kv_layout(first).value_scale;
      if (own.heads == first.heads && layout == kv_layout(first)) continue;
      return fail(
          ErrorCode::kDeviceUnfit,
          "layers {} and {} share a cache group and have heads of other numbers or sizes, which {} does not serve",
          group.layers.front(), layer, plan_.caps.name);
    }
  }
  return Ok{};
}

Status Planner::plan_layer(std::int32_t index) {
  const LayerSpec& layer = plan_.spec.layers[static_cast<std::size_t>(index)];
  plan_.kv_layouts.push_back(kv_layout(layer.attention));
  PAGODA_TRY(plan_attention(index));
  PAGODA_TRY(plan_feed_forward(index));
  const std::int64_t widths =
      layer.attention.heads * (layer.attention.key_dim + layer.attention.value_dim) + layer.feed_forward.width;
  const std::int64_t bytes = plan_.options.max_step_tokens * (plan_.spec.hidden * tensor::size_of(plan_.residual) +
                                                              widths * tensor::size_of(plan_.activation));
  plan_.activation_bytes = std::max(plan_.activation_bytes, bytes);
  return Ok{};
}

Status Planner::plan_attention(std::int32_t index) {
  const LayerSpec& layer = plan_.spec.layers[static_cast<std::size_t>(index)];
  const AttentionSpec& a = layer.attention;
  LayerPlan& stages = plan_.layers[static_cast<std::size_t>(index)];
  const std::int64_t tokens = plan_.options.max_step_tokens;
  const kernels::KvLayout& layout = plan_.kv_layouts.back();

  const LinearProblem in = PAGODA_TRY(
      product(index, {{Role::kQuery, a.query_bias}, {Role::kKey, a.key_bias}, {Role::kValue, a.value_bias}}, tokens));
  PAGODA_TRY(choose(stages.attention_in,
                    kernels::AttentionInProblem{
                        .has_norm = true, .norm = norm(), .product = in, .post = postprocess(a), .layout = layout},
                    kernels::attention_in_kernels(), "attention_in"));
  PAGODA_TRY(choose(stages.attention,
                    kernels::AttentionProblem{.activation = plan_.activation,
                                              .precision = plan_.precision,
                                              .layout = layout,
                                              .num_heads = a.heads,
                                              .scale = a.scale,
                                              .window = a.window,
                                              .softcap = a.softcap,
                                              .sinks = a.sinks,
                                              .max_rows = plan_.options.max_rows,
                                              .max_context = plan_.options.context,
                                              .workers = plan_.options.workers,
                                              .deterministic = plan_.options.deterministic,
                                              .any_size = plan_.options.any_size},
                    kernels::attention_kernels(), "attention"));
  const LinearProblem out = PAGODA_TRY(product(index, {{Role::kAttentionOut, a.output_bias}}, tokens));
  return choose(stages.attention_out, kernels::SublayerOutProblem{.product = out, .residual = residual(layer)},
                kernels::attention_out_kernels(), "attention_out");
}

Status Planner::plan_feed_forward(std::int32_t index) {
  const LayerSpec& layer = plan_.spec.layers[static_cast<std::size_t>(index)];
  const FeedForwardSpec& f = layer.feed_forward;
  LayerPlan& stages = plan_.layers[static_cast<std::size_t>(index)];
  const std::int64_t tokens = plan_.options.max_step_tokens;

  const LinearProblem in = PAGODA_TRY(product(index, {{Role::kGate, f.gate_bias}, {Role::kUp, f.up_bias}}, tokens));
  const kernels::GatedActivationProblem activation{
      .activation = plan_.activation, .width = f.width, .kind = f.activation, .limit = 0};
  PAGODA_TRY(choose(stages.ffn_in,
                    kernels::FfnInProblem{.has_norm = true, .norm = norm(), .product = in, .activation = activation},
                    kernels::ffn_in_kernels(), "ffn_in"));
  const LinearProblem down = PAGODA_TRY(product(index, {{Role::kDown, f.down_bias}}, tokens));
  return choose(stages.ffn_out, kernels::SublayerOutProblem{.product = down, .residual = residual(layer)},
                kernels::ffn_out_kernels(), "ffn_out");
}

Status Planner::plan_head() {
  const Role role = plan_.spec.tied_head ? Role::kEmbedding : Role::kHead;
  const std::int64_t rows = std::min(plan_.options.head_rows, plan_.options.max_step_tokens);
  LinearProblem problem = PAGODA_TRY(product(-1, {{role, false}}, rows));
  PAGODA_TRY(choose(plan_.head,
                    kernels::HeadProblem{.norm = norm(),
                                         .product = problem,
                                         .softcap = plan_.spec.logit_softcap,
                                         .scale = static_cast<float>(plan_.spec.logit_scale)},
                    kernels::head_kernels(), "head"));
  // An embedding that is no head is only ever read row by row: the file's own order is as good as any.
  WeightPlan& embedding = weight(Role::kEmbedding, -1);
  if (!embedding.tensor.entry->column_order().empty()) {
    return fail(ErrorCode::kFormatUnsupported,
                "the embedding {} has its columns in another order, which Pagoda reads of products only",
                embedding.tensor.entry->name);
  }
  if (embedding.layout == nullptr) embedding.layout = &kernels::kRowsLayout;
  plan_.activation_bytes += rows * (plan_.spec.hidden * tensor::size_of(plan_.activation) +
                                    plan_.spec.vocab * tensor::size_of(plan_.residual));
  const AttentionSpec& last = plan_.spec.layers.back().attention;
  plan_.activation_bytes += plan_.most_gathered() * (plan_.spec.hidden * tensor::size_of(plan_.residual) +
                                                     last.heads * last.value_dim * tensor::size_of(plan_.activation));
  return Ok{};
}

void Planner::store(WeightPlan& weight) {
  const BoundTensor& tensor = weight.tensor;
  if (weight.layout != nullptr) {
    weight.bytes = static_cast<std::int64_t>(
        weight.layout->packed_bytes(*tensor.entry->format, {.n = tensor.rows, .k = tensor.cols}));
    if (!tensor.entry->column_order().empty()) {
      weight.order_bytes = 2 * tensor.cols * static_cast<std::int64_t>(sizeof(std::int32_t));
      weight.bytes = round_up<std::int64_t>(weight.bytes, kernels::kLayoutAlignment) + weight.order_bytes;
    }
  } else {
    weight.bytes = tensor.rows * tensor.cols * static_cast<std::int64_t>(sizeof(float));
  }
  plan_.weight_bytes += round_up<std::int64_t>(weight.bytes, kernels::kLayoutAlignment);
}

}  // namespace

Result<KvDType> parse_kv_dtype(std::string_view text) {
  if (text == "auto") return KvDType::kAuto;
  if (text == "f16") return KvDType::kF16;
  if (text == "bf16") return KvDType::kBf16;
  if (text == "fp8_e4m3") return KvDType::kFp8E4m3;
  return fail_param(ErrorCode::kInvalidArgument, "--kv-dtype",
                    "--kv-dtype is \"{}\"; it must be auto, bf16, f16 or fp8_e4m3", text);
}

std::int64_t Plan::page_stride(std::int32_t layer) const {
  return round_up(kernels::kv_bytes_per_block(kv_layouts[static_cast<std::size_t>(layer)]), kScratchAlignment);
}

std::int64_t Plan::bytes_per_block(std::int32_t cache_group) const {
  std::int64_t bytes = 0;
  for (const std::int32_t layer : spec.cache_groups[static_cast<std::size_t>(cache_group)].layers) {
    bytes += page_stride(layer);
  }
  return bytes;
}

std::vector<kernels::CompileUnit> units(const Plan& plan) {
  std::vector<kernels::CompileUnit> units;
  const auto add = [&](std::vector<kernels::CompileUnit> more) {
    units.insert(units.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  const auto add_stage = [&](const auto& chosen) { add(chosen.kernel->units(chosen.problem, plan.caps)); };
  for (const WeightPlan& weight : plan.weights) {
    if (weight.layout == nullptr) continue;
    add(kernels::pack_units(*weight.format, *weight.layout, plan.caps));
    if (weight.tensor.role == Role::kEmbedding) add(kernels::embed_units(*weight.format, *weight.layout, plan.caps));
  }
  for (const LayerPlan& layer : plan.layers) {
    add_stage(layer.attention_in);
    add_stage(layer.attention);
    add_stage(layer.attention_out);
    add_stage(layer.ffn_in);
    add_stage(layer.ffn_out);
  }
  add_stage(plan.head);
  add(kernels::gather_rows_units(plan.caps));
  std::ranges::sort(units);
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

Result<Plan> make_plan(const ModelSpec& spec, const Binding& binding, const device::DeviceCaps& caps,
                       const PlanOptions& options) {
  PlanOptions resolved = options;
  if (resolved.context == 0) resolved.context = spec.context;
  PAGODA_TRY(check_options(resolved, spec, caps));
  return Planner(spec, binding, caps, resolved).make();
}

}  // namespace pagoda::model
