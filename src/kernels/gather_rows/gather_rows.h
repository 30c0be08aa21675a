// gather_rows: output[i] = input[rows[i]], whole rows as they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "kernels/candidate.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct GatherRowsArgs {
  tensor::MatrixView input;            ///< on a GPU rows and strides are multiples of 16 bytes
  tensor::MatrixView output;           ///< (m, cols) of the same type, apart from the input
  const std::int64_t* rows = nullptr;  ///< (m) rows of `input`, read when the launch runs
};

using GatherRowsStep = Step<GatherRowsArgs>;

Result<GatherRowsStep> prepare_gather_rows(device::Device& device);
std::vector<CompileUnit> gather_rows_units(const device::DeviceCaps& caps);

/// The hosts' own.
void gather_rows(const GatherRowsArgs& args, device::Stream& stream);

}  // namespace pagoda::kernels
