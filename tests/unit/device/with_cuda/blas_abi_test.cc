// Our declarations of cuBLASLt's types against NVIDIA's header. Built only where that header is installed.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "device/cuda/blas_types.h"

namespace pagoda::device::cuda {
namespace {

TEST(BlasAbi, NumbersAreNvidias) {
  EXPECT_EQ(kBlasBf16, CUDA_R_16BF);
  EXPECT_EQ(kBlasF32, CUDA_R_32F);
  EXPECT_EQ(kBlasComputeF32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(kBlasTransposed, CUBLAS_OP_T);
  EXPECT_EQ(kBlasDescTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(kBlasDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(kBlasDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(kBlasDescBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(kBlasEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(kBlasPreferWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(kBlasConfigId, CUBLASLT_ALGO_CONFIG_ID);
  EXPECT_EQ(kBlasConfigTile, CUBLASLT_ALGO_CONFIG_TILE_ID);
  EXPECT_EQ(kBlasConfigSplitK, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  EXPECT_EQ(kBlasConfigStages, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  EXPECT_EQ(kBlasConfigCluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
}

TEST(BlasAbi, LayoutsAreNvidias) {
  EXPECT_EQ(sizeof(BlasAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(sizeof(BlasHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(BlasHeuristic, workspace_bytes), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  EXPECT_EQ(offsetof(BlasHeuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
  EXPECT_EQ(offsetof(BlasHeuristic, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
}

}  // namespace
}  // namespace pagoda::device::cuda
#endif
