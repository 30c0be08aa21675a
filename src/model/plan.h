// The plan: for each stage of each layer the candidate that will run it, for each weight the layout it is stored in,
// and the memory all of it takes. A pure function of spec, formats, device and options: made without weights and
// without the device, so that it is shown (`inspect --plan`) and tested for any machine on any machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/result.h"
#include "device/caps.h"
#include "kernels/arithmetic.h"
#include "kernels/kv_store/kv_layout.h"
#include "kernels/linear/layout.h"
#include "kernels/stages/attention.h"
#include "kernels/stages/attention_in.h"
#include "kernels/stages/ffn_in.h"
#include "kernels/stages/head.h"
#include "kernels/stages/sublayer_out.h"
#include "model/binding.h"
#include "model/model_spec.h"

namespace pagoda::model {

/// A part of a model that is spread over devices; 0 of 1 is all of it, and all there is today.
struct Shard {
  std::int32_t rank = 0;
  std::int32_t world = 1;
};

enum class KvDType : std::uint8_t { kAuto, kF16, kBf16, kFp8E4m3 };

/// "auto", "f16", "bf16" or "fp8_e4m3"; another word is kInvalidArgument.
Result<KvDType> parse_kv_dtype(std::string_view text);

struct PlanOptions {
  kernels::Precision precision = kernels::Precision::kStandard;  ///< of a CPU; the reference is always exact
  KvDType kv_dtype = KvDType::kAuto;   ///< f16 on the CPU, bf16 on a GPU, double on the reference
  std::int32_t block_size = 16;        ///< tokens of a page: a power of two from 8 to 256
  std::int64_t context = 0;            ///< the most tokens of a sequence; 0: what the model was made for
  std::int32_t max_step_tokens = 576;  ///< of a step, all rows together
  std::int32_t max_rows = 16;          ///< sequences of a step
  std::int32_t workers = 1;            ///< threads of the host's pool
  std::int32_t head_rows = 16;         ///< tokens whose logits exist at once
  bool deterministic = false;          ///< of a GPU: a row's bits never depend on its step
  bool tune = false;                   ///< of a GPU: measure at start what may be launched in two ways
  bool any_size = false;               ///< of a GPU: only kernels that no model's sizes are compiled into
  Shard shard;
};

/// How one weight is stored.
struct WeightPlan {
  BoundTensor tensor;
  const quant::Format* format = nullptr;    ///< of the file's tensor
  const kernels::Layout* layout = nullptr;  ///< null: small, widened to float (norms, biases)
  std::int64_t bytes = 0;                   ///< in memory
  std::int64_t order_bytes = 0;             ///< of LinearWeight::order, the last of these bytes; 0: none
};

/// A stage's problem and the candidate that will do it.
template <class Problem, class Kernel>
struct Chosen {
  Problem problem;
  const Kernel* kernel = nullptr;
  std::int64_t scratch_bytes = 0;
};

/// The stages of one layer, in order.
struct LayerPlan {
  Chosen<kernels::AttentionInProblem, kernels::AttentionInKernel> attention_in;
  Chosen<kernels::AttentionProblem, kernels::AttentionKernel> attention;
  Chosen<kernels::SublayerOutProblem, kernels::SublayerOutKernel> attention_out;
  Chosen<kernels::FfnInProblem, kernels::FfnInKernel> ffn_in;
  Chosen<kernels::SublayerOutProblem, kernels::SublayerOutKernel> ffn_out;
};

/// A choice in words, and the layers it holds for.
struct StageChoice {
  std::string stage;      ///< "attention_in"
  std::string layers;     ///< "0-29"; empty: of no layer
  std::string candidate;  ///< "chain: int8_avx512"
  std::string layout;     ///< of its weights or pages: "int8_rows16"
  std::string reason;     ///< one sentence
};

struct Plan {
  ModelSpec spec;
  device::DeviceCaps caps;
  PlanOptions options;  ///< with `context` resolved
  kernels::Precision precision = kernels::Precision::kStandard;
  tensor::DType activation = tensor::DType::kF32;  ///< between stages
  tensor::DType residual = tensor::DType::kF32;    ///< of the residual stream, and of logits
  tensor::DType kv_dtype = tensor::DType::kF16;
  std::vector<WeightPlan> weights;  ///< as the binding's; a tied head has none of its own
  std::vector<LayerPlan> layers;
  Chosen<kernels::HeadProblem, kernels::HeadKernel> head;
  std::vector<kernels::KvLayout> kv_layouts;  ///< one a layer
  std::int64_t weight_bytes = 0;
  std::int64_t activation_bytes = 0;  ///< all buffers of a step
  std::int64_t scratch_bytes = 0;     ///< one workspace for the largest stage

  /// The most wanted tokens that the last layer is narrowed to: one of each sequence, which is all that drawing takes.
  std::int64_t most_gathered() const { return std::min(options.max_rows, options.max_step_tokens); }

  /// Bytes from one page of a layer to the next.
  std::int64_t page_stride(std::int32_t layer) const;

  /// Of all layers of one cache group together, keys and values.
  std::int64_t bytes_per_block(std::int32_t cache_group) const;
};

/// Errors: kInvalidArgument (an option out of its range, its flag in Error::param); kFormatUnsupported, a weight that
/// no candidate reads; kDeviceUnfit.
Result<Plan> make_plan(const ModelSpec& spec, const Binding& binding, const device::DeviceCaps& caps,
                       const PlanOptions& options);

/// All device code that the plan needs, each unit once; nothing on a host.
std::vector<kernels::CompileUnit> units(const Plan& plan);

/// Every choice with its reason, equal ones of several layers as one: what `inspect --plan` prints.
std::vector<StageChoice> explain(const Plan& plan);

}  // namespace pagoda::model
