// Which tensor of a checkpoint is which weight of the model. Every tensor is claimed exactly once, or the file is
// refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/tensor_catalog.h"
#include "model/model_spec.h"

namespace pagoda::model {

/// What a weight does in the decoder.
enum class Role : std::uint8_t {
  kEmbedding,
  kFinalNorm,
  kHead,
  kRopeDivisors,
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,
  kKeyNorm,
  kSinks,
  kAttentionOut,
  kAttentionOutBias,
  kAttentionPostNorm,
  kFeedForwardNorm,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kFeedForwardPostNorm,
};

std::string_view to_string(Role role);

/// The name a tensor of that role has in checkpoints of one kind: "{}" stands for the layer.
struct TensorName {
  Role role = Role::kEmbedding;
  std::string_view pattern;
};

/// The names of GGUF files, which all families share. A role may have several.
std::span<const TensorName> gguf_tensor_names();

/// The same of Hugging Face's decoders.
std::span<const TensorName> hf_tensor_names();

/// The first of its names for a role of a layer.
std::string tensor_name(std::span<const TensorName> names, Role role, std::int32_t layer);

/// The tensor of that role, by the first of its names that is there, or null. `layer` is -1 for roles of no layer.
const io::TensorEntry* find_tensor(const io::TensorCatalog& catalog, std::span<const TensorName> names, Role role,
                                   std::int32_t layer);

/// One weight. `entry` is lent by the catalog.
struct BoundTensor {
  Role role = Role::kEmbedding;
  std::int32_t layer = -1;
  const io::TensorEntry* entry = nullptr;
  std::int64_t rows = 1;  ///< (rows, cols): a matrix of products, or a vector of 1 row
  std::int64_t cols = 0;
  bool matrix = false;  ///< read by linear products; the others are small and become floats
};

struct Binding {
  std::vector<BoundTensor> tensors;  ///< by layer and role

  /// Null if the model has no such weight.
  const BoundTensor* find(Role role, std::int32_t layer) const;
};

/// What a model of that spec reads, by layer and role; each `entry` is null.
std::vector<BoundTensor> wanted_tensors(const ModelSpec& spec);

/// Of a checkpoint's tensors, those that its configuration implies anyway (RoPE's frequencies, which old Hugging Face
/// checkpoints keep) and biases of zeros may be there unclaimed.
/// Errors, each with the names and shapes: kTensorMissing, kTensorShape, kTensorUnclaimed.
Result<Binding> bind_tensors(const ModelSpec& spec, const io::TensorCatalog& catalog, std::span<const TensorName> names,
                             std::string_view source);

}  // namespace pagoda::model
