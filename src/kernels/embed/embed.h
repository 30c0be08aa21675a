// embed: output[i] = scale · table[ids[i]], the rows decoded from whatever layout the weight has.
#pragma once

#include <cstdint>

#include <vector>

#include "device/stream.h"
#include "kernels/candidate.h"
#include "kernels/linear/linear.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct EmbedArgs {
  const std::int32_t* ids = nullptr;  ///< (m), each in [0, n) of the table: the caller has checked them
  tensor::MatrixView output;          ///< (m, k), f64 on the reference and f32 elsewhere
  double scale = 1;  ///< the model's embedding scale (√hidden for Gemma); but for the reference its nearest float
  /// GPUs only: an id of -1 - s stands for last_ids[s], what slot s drew in the step before.
  const std::int32_t* last_ids = nullptr;
};

using EmbedStep = Step<EmbedArgs>;

/// Rows of a table that may also be the head's weight: it is stored once, and any layout will do. `table` is lent.
Result<EmbedStep> prepare_embed(const LinearWeight& table, device::Device& device);
std::vector<CompileUnit> embed_units(const quant::Format& format, const Layout& layout, const device::DeviceCaps& caps);

/// The hosts' own. The reference multiplies in double; the CPU rounds once, to float.
void embed(const LinearWeight& table, const EmbedArgs& args, device::Stream& stream);

}  // namespace pagoda::kernels
