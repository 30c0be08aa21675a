#include "kernels/sample/row_body.h"

namespace pagoda::kernels {

const RowKernelSet kRowKernelsAvx512 = kRowKernelsHere;

}  // namespace pagoda::kernels
