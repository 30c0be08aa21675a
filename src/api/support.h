#pragma once

#include <string>
#include <vector>

#include "device/caps.h"
#include "kernels/arithmetic.h"
#include "pagoda/inspect.h"

namespace pagoda::api {

/// The kernels that serve products of each weight format on one device: with one row of input (gemv), with 16 (small)
/// and with 512 (large). Neighbours that are the same share a line. Of a GPU's product, the device code's files.
std::vector<SupportRow> linear_support(const device::DeviceCaps& caps, kernels::Precision precision);

}  // namespace pagoda::api
