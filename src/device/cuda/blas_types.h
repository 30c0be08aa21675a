// cuBLASLt's types and numbers that Pagoda uses, in our own words, so that building needs no CUDA. A test holds them
// against NVIDIA's header where it exists.
// Source: cuBLAS documentation, the cuBLASLt API, 12.4 to 13.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pagoda::device::cuda {

// cudaDataType, cublasComputeType_t, cublasOperation_t
inline constexpr std::int32_t kBlasBf16 = 14;
inline constexpr std::int32_t kBlasF32 = 0;
inline constexpr std::int32_t kBlasComputeF32 = 68;
inline constexpr std::int32_t kBlasTransposed = 1;

// cublasLtMatmulDescAttributes_t and cublasLtEpilogue_t
inline constexpr std::int32_t kBlasDescTransposeA = 3;
inline constexpr std::int32_t kBlasDescEpilogue = 7;
inline constexpr std::int32_t kBlasDescBiasPointer = 8;
inline constexpr std::int32_t kBlasDescBiasType = 26;
inline constexpr std::int32_t kBlasEpilogueBias = 4;

// cublasLtMatmulPreferenceAttributes_t
inline constexpr std::int32_t kBlasPreferWorkspaceBytes = 1;

// cublasLtMatmulAlgoConfigAttributes_t
inline constexpr std::int32_t kBlasConfigId = 0;
inline constexpr std::int32_t kBlasConfigTile = 1;
inline constexpr std::int32_t kBlasConfigSplitK = 2;
inline constexpr std::int32_t kBlasConfigStages = 6;
inline constexpr std::int32_t kBlasConfigCluster = 8;

/// cublasLtMatmulAlgo_t
struct BlasAlgorithm {
  std::uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t
struct BlasHeuristic {
  BlasAlgorithm algorithm;
  std::size_t workspace_bytes;
  std::int32_t state;
  float waves;
  std::int32_t reserved[4];
};

}  // namespace pagoda::device::cuda
