// A plan in words.
#include <algorithm>

#include "base/format.h"
#include "model/plan.h"

namespace pagoda::model {
namespace {

/// "q4_1" or "q4_1, q8_0": the formats of a product's weights, each once.
std::string formats_of(const kernels::LinearProblem& product) {
  std::string text;
  for (const kernels::LinearWeightSpec& weight : product.specs()) {
    if (text.find(weight.format->name) != std::string::npos) continue;
    text += pagoda::format("{}{}", text.empty() ? "" : ", ", weight.format->name);
  }
  return text;
}

std::string layouts_of(const kernels::LinearProblem& product) {
  std::string text;
  for (const kernels::LinearWeightSpec& weight : product.specs()) {
    if (text.find(weight.layout->name) != std::string::npos) continue;
    text += pagoda::format("{}{}", text.empty() ? "" : ", ", weight.layout->name);
  }
  return text;
}

/// What the product does with x beside what its candidate's name says.
template <class Problem>
std::string_view input_of(const kernels::LinearKernel& linear, const Problem& problem, const Plan& plan) {
  const kernels::LinearProblem& product = problem.product;
  if (linear.rounds_input != nullptr && linear.rounds_input(product, plan.caps)) {
    return "; 17 and more rows of x are rounded to e4m3, which these weights allow";
  }
  if constexpr (requires { problem.norm.hidden; }) {
    if (linear.takes_f16 != nullptr && linear.takes_f16(product, plan.caps)) {
      return "; behind a norm, so that x and weights are multiplied in f16";
    }
  }
  return "";
}

/// Of a GPU's candidates none asks for it.
std::string precision_of(const kernels::LinearProblem& product, const Plan& plan) {
  if (plan.caps.kind == device::DeviceKind::kCuda) return {};
  return pagoda::format(" at precision {}", kernels::to_string(product.precision));
}

template <class Chosen>
StageChoice choice_with_product(std::string_view stage, const Chosen& chosen, const Plan& plan) {
  kernels::LinearProblem product = chosen.problem.product;
  const kernels::LinearKernel* linear = kernels::first_linear_kernel(product, plan.caps);
  return {
      .stage = std::string(stage),
      .layers = {},
      .candidate = pagoda::format("{}: {}", chosen.kernel->name, linear->name),
      .layout = layouts_of(chosen.problem.product),
      .reason = pagoda::format("the first of linear's candidates that reads {}{} on {}{}", formats_of(product),
                               precision_of(product, plan), plan.caps.name, input_of(*linear, chosen.problem, plan))};
}

constexpr std::size_t kStagesOfALayer = 5;

std::vector<StageChoice> choices_of(const LayerPlan& layer, const Plan& plan) {
  const kernels::AttentionProblem& attention = layer.attention.problem;
  std::vector<StageChoice> choices;
  choices.push_back(choice_with_product("attention_in", layer.attention_in, plan));
  choices.push_back(
      {.stage = "attention",
       .layers = {},
       .candidate = std::string(layer.attention.kernel->name),
       .layout = pagoda::format("{} of {}, {} tokens a page", kernels::to_string(attention.layout.order),
                                tensor::name_of(attention.layout.dtype), attention.layout.block_size),
       .reason = pagoda::format(
           "the first that supports heads of {} and {}{} on {}", attention.layout.key_dim, attention.layout.value_dim,
           attention.window > 0 ? pagoda::format(" with a window of {}", attention.window) : "", plan.caps.name)});
  choices.push_back(choice_with_product("attention_out", layer.attention_out, plan));
  choices.push_back(choice_with_product("ffn_in", layer.ffn_in, plan));
  choices.push_back(choice_with_product("ffn_out", layer.ffn_out, plan));
  return choices;
}

/// How decode steps get to a GPU.
StageChoice launches_of(const Plan& plan) {
  const bool programmatic = plan.caps.gpu.compute() >= 90;
  StageChoice choice{.stage = "steps", .layers = {}, .candidate = "captured", .layout = {}, .reason = {}};
  if (plan.options.deterministic) {
    choice.candidate = "eager";
    choice.reason = "deterministic attention has a list of work for each step";
  } else if (!programmatic) {
    choice.reason = pagoda::format("{} has no programmatic launch", plan.caps.name);
  } else if (plan.options.tune) {
    choice.reason = "programmatic launches, or ordinary ones if these are measured to be faster at start";
  } else {
    choice.reason = "programmatic launches; without tuning nothing is measured at start";
  }
  return choice;
}

bool same(const StageChoice& a, const StageChoice& b) {
  return a.stage == b.stage && a.candidate == b.candidate && a.layout == b.layout && a.reason == b.reason;
}

/// Appends a layer to a list such as "0-4,6".
void append_layer(std::string& list, std::size_t& last, std::size_t layer) {
  if (list.empty()) {
    list = std::to_string(layer);
  } else if (layer == last + 1) {
    const std::size_t dash = list.find_last_of("-,");
    const bool in_range = dash != std::string::npos && list[dash] == '-';
    list = pagoda::format("{}-{}", in_range ? list.substr(0, dash) : list, layer);
  } else {
    list += pagoda::format(",{}", layer);
  }
  last = layer;
}

}  // namespace

std::vector<StageChoice> explain(const Plan& plan) {
  struct Folded {
    StageChoice choice;
    std::size_t last = 0;
  };
  std::vector<Folded> folded;
  for (std::size_t stage = 0; stage < kStagesOfALayer; ++stage) {
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      StageChoice choice = std::move(choices_of(plan.layers[i], plan)[stage]);
      auto at = std::ranges::find_if(folded, [&](const Folded& each) { return same(each.choice, choice); });
      if (at == folded.end()) at = folded.insert(folded.end(), Folded{std::move(choice), 0});
      append_layer(at->choice.layers, at->last, i);
    }
  }
  std::vector<StageChoice> choices;
  choices.push_back({.stage = "embed",
                     .layers = {},
                     .candidate = "decode_row",
                     .layout = std::string(plan.weights.front().layout->name),
                     .reason = pagoda::format("rows of {} are decoded from the layout the weight is stored in{}",
                                              plan.weights.front().format->name,
                                              plan.spec.tied_head ? ", which is the head's: it is stored once" : "")});
  for (Folded& each : folded) choices.push_back(std::move(each.choice));
  choices.push_back(choice_with_product("head", plan.head, plan));
  if (plan.caps.kind == device::DeviceKind::kCuda) choices.push_back(launches_of(plan));
  choices.push_back({.stage = "sample",
                     .layers = {},
                     .candidate = "select",
                     .layout = {},
                     .reason = "one semantics for every device"});
  return choices;
}

}  // namespace pagoda::model
