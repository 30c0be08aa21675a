#pragma once

#include "kernels/linear/int8_rows16.h"
#include "quant/format.h"

namespace pagoda::kernels {

/// How kInt8Rows16Layout stores a format, or null if it does not.
const int8_rows16::Encoding* find_int8_encoding(const quant::Format& format);

}  // namespace pagoda::kernels
