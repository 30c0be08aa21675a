#include "kernels/sample/row_body.h"

namespace pagoda::kernels {

const RowKernelSet kRowKernelsPortable = kRowKernelsHere;

}  // namespace pagoda::kernels
