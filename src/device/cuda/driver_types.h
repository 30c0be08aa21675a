// The CUDA driver's types and numbers that Pagoda uses, in our own words, so that building needs no CUDA. A test holds
// every size, offset and value against NVIDIA's headers where they exist.
// Source: CUDA Driver API reference, 12.4 (the oldest driver served) to 13.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pagoda::device::cuda {

using Result32 = std::int32_t;  // CUresult; 0 is success
using DeviceOrdinal = std::int32_t;
using DeviceAddress = std::uint64_t;
using MemoryHandle = std::uint64_t;  // CUmemGenericAllocationHandle

struct ContextRecord;
struct StreamRecord;
struct EventRecord;
struct ModuleRecord;
struct FunctionRecord;
struct GraphRecord;
struct GraphNodeRecord;
struct GraphExecRecord;
struct MemoryPoolRecord;
using ContextHandle = ContextRecord*;
using StreamHandle = StreamRecord*;
using EventHandle = EventRecord*;
using ModuleHandle = ModuleRecord*;
using FunctionHandle = FunctionRecord*;
using GraphHandle = GraphRecord*;
using GraphNode = GraphNodeRecord*;
using GraphExecHandle = GraphExecRecord*;
using MemoryPoolHandle = MemoryPoolRecord*;

inline constexpr Result32 kSuccess = 0;
inline constexpr Result32 kOutOfMemory = 2;
inline constexpr Result32 kNotReady = 600;

// CUdevice_attribute
inline constexpr std::int32_t kAttributeMaxSharedPerBlock = 8;
inline constexpr std::int32_t kAttributeClockKhz = 13;
inline constexpr std::int32_t kAttributeNumSms = 16;
inline constexpr std::int32_t kAttributeL2Bytes = 38;
inline constexpr std::int32_t kAttributeComputeMajor = 75;
inline constexpr std::int32_t kAttributeComputeMinor = 76;
inline constexpr std::int32_t kAttributeMaxSharedPerBlockOptin = 97;
inline constexpr std::int32_t kAttributeVirtualMemory = 102;
inline constexpr std::int32_t kAttributeMemoryPools = 115;

// CUfunction_attribute
inline constexpr std::int32_t kFunctionMaxThreads = 0;
inline constexpr std::int32_t kFunctionSharedBytes = 1;
inline constexpr std::int32_t kFunctionLocalBytes = 3;
inline constexpr std::int32_t kFunctionNumRegisters = 4;
inline constexpr std::int32_t kFunctionMaxDynamicShared = 8;

// flags
inline constexpr std::uint32_t kStreamNonBlocking = 1;
inline constexpr std::uint32_t kEventDisableTiming = 2;
inline constexpr std::int32_t kCaptureThreadLocal = 1;
inline constexpr std::int32_t kCaptureActive = 1;

// CUmemPool_attribute
inline constexpr std::int32_t kPoolReleaseThreshold = 4;
inline constexpr std::int32_t kPoolReservedBytes = 5;
inline constexpr std::int32_t kPoolUsedBytes = 7;

struct MemoryLocation {
  std::int32_t type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  std::int32_t id = 0;
};

/// CUmemPoolProps
struct MemoryPoolProps {
  std::int32_t allocation_type = 1;  // pinned
  std::int32_t handle_types = 0;
  MemoryLocation location;
  void* security_attributes = nullptr;
  std::size_t max_size = 0;
  std::uint16_t usage = 0;
  std::uint8_t reserved[54] = {};
};

/// CUmemAllocationProp
struct MemoryAllocationProp {
  std::int32_t type = 1;  // pinned
  std::int32_t requested_handle_types = 0;
  MemoryLocation location;
  void* win32_metadata = nullptr;
  struct {
    std::uint8_t compression_type = 0;
    std::uint8_t gpu_direct_rdma_capable = 0;
    std::uint16_t usage = 0;
    std::uint8_t reserved[4] = {};
  } flags;
};

/// CUmemAccessDesc
struct MemoryAccess {
  MemoryLocation location;
  std::int32_t flags = 3;  // read and write
};

/// CUlaunchAttribute: an id, 4 bytes of padding and a value of 64 bytes
struct LaunchAttribute {
  std::int32_t id = 0;
  std::uint8_t pad[4] = {};
  union {
    std::uint8_t bytes[64];
    std::int32_t enabled;      // programmatic stream serialization
    std::uint32_t cluster[3];  // cluster dimension
  } value = {};
};
inline constexpr std::int32_t kLaunchClusterDimension = 4;
inline constexpr std::int32_t kLaunchProgrammaticSerialization = 6;

/// CUlaunchConfig
struct LaunchParams {
  std::uint32_t grid_x = 1, grid_y = 1, grid_z = 1;
  std::uint32_t block_x = 1, block_y = 1, block_z = 1;
  std::uint32_t shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  std::uint32_t num_attributes = 0;
};

/// CUDA_KERNEL_NODE_PARAMS (version 2)
struct KernelNodeParams {
  FunctionHandle function = nullptr;
  std::uint32_t grid_x = 1, grid_y = 1, grid_z = 1;
  std::uint32_t block_x = 1, block_y = 1, block_z = 1;
  std::uint32_t shared_bytes = 0;
  void** params = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  void* context = nullptr;
};

/// CUtensorMap: opaque, made by the driver, given to kernels by value.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

// CUtensorMapDataType and its kin
inline constexpr std::int32_t kTensorMapU8 = 0;
inline constexpr std::int32_t kTensorMapF16 = 6;
inline constexpr std::int32_t kTensorMapF32 = 7;
inline constexpr std::int32_t kTensorMapBf16 = 9;
inline constexpr std::int32_t kTensorMapNoInterleave = 0;
inline constexpr std::int32_t kTensorMapSwizzle32 = 1;
inline constexpr std::int32_t kTensorMapSwizzle64 = 2;
inline constexpr std::int32_t kTensorMapSwizzle128 = 3;
inline constexpr std::int32_t kTensorMapPromotion256 = 3;
inline constexpr std::int32_t kTensorMapFillZeros = 0;

}  // namespace pagoda::device::cuda
