// embed: output[i] = scale · table[ids[i]], the rows decoded from whatever layout the weight has.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/linear/linear.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct EmbedArgs {
  const std::int32_t* ids = nullptr;  ///< (m), each in [0, n) of the table: the caller has checked them
  tensor::MatrixView output;          ///< (m, k), f64 on the reference and f32 on the CPU
  double scale = 1;  ///< the model's embedding scale (√hidden for Gemma); the CPU multiplies by its nearest float
};

/// Rows of a table that may also be the head's weight: it is stored once, and any layout will do. `table` is lent.
/// The reference multiplies in double; the CPU rounds once, to float.
void embed(const LinearWeight& table, const EmbedArgs& args, device::Stream& stream);

}  // namespace pagoda::kernels
