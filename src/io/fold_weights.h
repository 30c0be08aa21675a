// The tensors of a quantised checkpoint as the weights they stand for.
#pragma once

#include "base/result.h"
#include "io/model_file.h"
#include "io/quantization.h"

namespace pagoda::io {

/// The catalog of `file` with each weight that lies in several tensors as one entry, "….weight", of the format its
/// blocks have (tensor_catalog.h); all others stay as they are. Small tensors that decide about the order of columns
/// are read. Errors, with the tensor's name: kTensorMissing, kTensorShape; kFormatUnsupported for what no format holds,
/// and for a tensor of a type that is no weight's and belongs to none; those of reading.
Result<TensorCatalog> fold_weights(const ModelFile& file, const Quantization& quantization);

}  // namespace pagoda::io
