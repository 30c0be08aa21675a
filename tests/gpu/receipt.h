// What a run on a GPU leaves behind: for each unit of device code that a test ran, its hash and whether all those tests
// passed. tools/gpu_receipt.py puts these lines into tests/golden/gpu_receipt.tsv.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/compiler.h"

namespace pagoda::gpu {

/// A compiler over all embedded sources with the NVRTC that is there; a thread for each processor.
std::shared_ptr<device::cuda::Compiler> make_compiler(const std::string& cache_folder);

/// Says that the running test is about these units.
void note_units(const std::vector<device::CompileUnit>& units);

/// Keeps the largest error of an operation.
void note_error(const std::string& operation, double error);

/// gtest's main for programs of this folder: runs all tests, prints the largest errors and the receipt, and writes the
/// receipt to the file that $PAGODA_RECEIPT names. `verdict` is the column it fills: "parity" or "models".
int run_tests(const std::string& verdict);

}  // namespace pagoda::gpu
