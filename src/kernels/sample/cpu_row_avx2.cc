#include "kernels/sample/row_body.h"

namespace pagoda::kernels {

const RowKernelSet kRowKernelsAvx2 = kRowKernelsHere;

}  // namespace pagoda::kernels
