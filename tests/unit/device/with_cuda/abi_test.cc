// Our declarations of the driver's types against NVIDIA's header. Built only where that header is installed.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "device/cuda/driver_types.h"

namespace pagoda::device::cuda {
namespace {

TEST(DriverAbi, NumbersAreNvidias) {
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kAttributeMaxSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  EXPECT_EQ(kAttributeClockKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  EXPECT_EQ(kAttributeNumSms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kAttributeL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(kAttributeComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kAttributeComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(kAttributeMaxSharedPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(kAttributeVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  EXPECT_EQ(kAttributeMemoryPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  EXPECT_EQ(kFunctionMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_EQ(kFunctionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_EQ(kFunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(kFunctionNumRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_EQ(kFunctionMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kStreamNonBlocking, static_cast<std::uint32_t>(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(kEventDisableTiming, static_cast<std::uint32_t>(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(kPoolReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  EXPECT_EQ(kPoolReservedBytes, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  EXPECT_EQ(kPoolUsedBytes, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  EXPECT_EQ(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(kLaunchProgrammaticSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(kTensorMapU8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(kTensorMapF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(kTensorMapF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  EXPECT_EQ(kTensorMapBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(kTensorMapSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B);
  EXPECT_EQ(kTensorMapSwizzle64, CU_TENSOR_MAP_SWIZZLE_64B);
  EXPECT_EQ(kTensorMapSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(kTensorMapPromotion256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  EXPECT_EQ(MemoryPoolProps{}.allocation_type, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(MemoryLocation{}.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(MemoryAccess{}.flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST(DriverAbi, LayoutsAreNvidias) {
  EXPECT_EQ(sizeof(MemoryPoolProps), sizeof(CUmemPoolProps));
  EXPECT_EQ(offsetof(MemoryPoolProps, max_size), offsetof(CUmemPoolProps, maxSize));
  EXPECT_EQ(sizeof(MemoryAllocationProp), sizeof(CUmemAllocationProp));
  EXPECT_EQ(offsetof(MemoryAllocationProp, flags), offsetof(CUmemAllocationProp, allocFlags));
  EXPECT_EQ(sizeof(MemoryAccess), sizeof(CUmemAccessDesc));
  EXPECT_EQ(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(LaunchParams), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(LaunchParams, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(LaunchParams, num_attributes), offsetof(CUlaunchConfig, numAttrs));
  EXPECT_EQ(sizeof(KernelNodeParams), sizeof(CUDA_KERNEL_NODE_PARAMS));
  EXPECT_EQ(offsetof(KernelNodeParams, params), offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
  EXPECT_EQ(offsetof(KernelNodeParams, context), offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
  EXPECT_EQ(sizeof(TensorMap), sizeof(CUtensorMap));
  // The hardware wants 64; headers of CUDA 13 say 128, those of 12 say 64.
  EXPECT_LE(alignof(TensorMap), alignof(CUtensorMap));
}

}  // namespace
}  // namespace pagoda::device::cuda
