// The table of driver entry points through which everything reaches CUDA. Loaded from libcuda at run time; tests fill
// it with functions of their own.
#pragma once

#include "device/cuda/driver_types.h"

namespace pagoda::device::cuda {

/// Arguments and results are those of the driver function named in `for_each_entry`, at its CUDA 12.4 signature.
struct DriverApi {
  Result32 (*init)(std::uint32_t flags);
  Result32 (*driver_get_version)(std::int32_t* version);
  Result32 (*get_error_name)(Result32 error, const char** text);
  Result32 (*get_error_string)(Result32 error, const char** text);

  Result32 (*device_get_count)(std::int32_t* count);
  Result32 (*device_get)(DeviceOrdinal* device, std::int32_t index);
  Result32 (*device_get_name)(char* name, std::int32_t bytes, DeviceOrdinal device);
  Result32 (*device_get_attribute)(std::int32_t* value, std::int32_t attribute, DeviceOrdinal device);
  Result32 (*device_total_memory)(std::size_t* bytes, DeviceOrdinal device);

  Result32 (*primary_context_retain)(ContextHandle* context, DeviceOrdinal device);
  Result32 (*primary_context_release)(DeviceOrdinal device);
  Result32 (*context_set_current)(ContextHandle context);

  Result32 (*memory_get_info)(std::size_t* free_bytes, std::size_t* total_bytes);
  Result32 (*host_alloc)(void** pointer, std::size_t bytes, std::uint32_t flags);
  Result32 (*host_free)(void* pointer);
  Result32 (*copy_to_device_async)(DeviceAddress target, const void* source, std::size_t bytes, StreamHandle stream);
  Result32 (*copy_to_host_async)(void* target, DeviceAddress source, std::size_t bytes, StreamHandle stream);
  Result32 (*copy_on_device_async)(DeviceAddress target, DeviceAddress source, std::size_t bytes, StreamHandle stream);
  Result32 (*set_bytes_async)(DeviceAddress target, std::uint8_t value, std::size_t bytes, StreamHandle stream);

  Result32 (*pool_create)(MemoryPoolHandle* pool, const MemoryPoolProps* props);
  Result32 (*pool_destroy)(MemoryPoolHandle pool);
  Result32 (*pool_set_attribute)(MemoryPoolHandle pool, std::int32_t attribute, void* value);
  Result32 (*pool_get_attribute)(MemoryPoolHandle pool, std::int32_t attribute, void* value);
  Result32 (*pool_trim)(MemoryPoolHandle pool, std::size_t bytes_to_keep);
  Result32 (*pool_alloc_async)(DeviceAddress* address, std::size_t bytes, MemoryPoolHandle pool, StreamHandle stream);
  Result32 (*free_async)(DeviceAddress address, StreamHandle stream);

  Result32 (*allocation_granularity)(std::size_t* bytes, const MemoryAllocationProp* prop, std::int32_t option);
  Result32 (*address_reserve)(DeviceAddress* address, std::size_t bytes, std::size_t alignment, DeviceAddress hint,
                              std::uint64_t flags);
  Result32 (*address_free)(DeviceAddress address, std::size_t bytes);
  Result32 (*memory_create)(MemoryHandle* handle, std::size_t bytes, const MemoryAllocationProp* prop,
                            std::uint64_t flags);
  Result32 (*memory_release)(MemoryHandle handle);
  Result32 (*memory_map)(DeviceAddress address, std::size_t bytes, std::size_t offset, MemoryHandle handle,
                         std::uint64_t flags);
  Result32 (*memory_unmap)(DeviceAddress address, std::size_t bytes);
  Result32 (*memory_set_access)(DeviceAddress address, std::size_t bytes, const MemoryAccess* access,
                                std::size_t count);

  Result32 (*stream_create)(StreamHandle* stream, std::uint32_t flags);
  Result32 (*stream_destroy)(StreamHandle stream);
  Result32 (*stream_synchronize)(StreamHandle stream);
  Result32 (*stream_query)(StreamHandle stream);
  Result32 (*stream_wait_event)(StreamHandle stream, EventHandle event, std::uint32_t flags);
  Result32 (*event_create)(EventHandle* event, std::uint32_t flags);
  Result32 (*event_destroy)(EventHandle event);
  Result32 (*event_record)(EventHandle event, StreamHandle stream);
  Result32 (*event_synchronize)(EventHandle event);
  Result32 (*event_query)(EventHandle event);
  Result32 (*event_elapsed_ms)(float* milliseconds, EventHandle begin, EventHandle end);

  Result32 (*module_load_data)(ModuleHandle* module, const void* image);
  Result32 (*module_unload)(ModuleHandle module);
  Result32 (*module_get_function)(FunctionHandle* function, ModuleHandle module, const char* name);
  Result32 (*function_get_attribute)(std::int32_t* value, std::int32_t attribute, FunctionHandle function);
  Result32 (*function_set_attribute)(FunctionHandle function, std::int32_t attribute, std::int32_t value);
  Result32 (*function_get_param_info)(FunctionHandle function, std::size_t index, std::size_t* offset,
                                      std::size_t* bytes);
  Result32 (*max_active_blocks)(std::int32_t* blocks, FunctionHandle function, std::int32_t threads,
                                std::size_t shared_bytes);
  Result32 (*launch_kernel)(const LaunchParams* params, FunctionHandle function, void** arguments, void** extra);

  Result32 (*begin_capture)(StreamHandle stream, std::int32_t mode);
  Result32 (*end_capture)(StreamHandle stream, GraphHandle* graph);
  Result32 (*capture_info)(StreamHandle stream, std::int32_t* status, std::uint64_t* id, GraphHandle* graph,
                           const GraphNode** dependencies, const void** edges, std::size_t* num_dependencies);
  Result32 (*graph_instantiate)(GraphExecHandle* exec, GraphHandle graph, std::uint64_t flags);
  Result32 (*graph_destroy)(GraphHandle graph);
  Result32 (*graph_exec_destroy)(GraphExecHandle exec);
  Result32 (*graph_upload)(GraphExecHandle exec, StreamHandle stream);
  Result32 (*graph_launch)(GraphExecHandle exec, StreamHandle stream);
  Result32 (*graph_get_nodes)(GraphHandle graph, GraphNode* nodes, std::size_t* count);
  Result32 (*graph_exec_set_kernel_params)(GraphExecHandle exec, GraphNode node, const KernelNodeParams* params);

  Result32 (*tensor_map_encode_tiled)(TensorMap* map, std::int32_t type, std::uint32_t rank, void* address,
                                      const std::uint64_t* sizes, const std::uint64_t* strides,
                                      const std::uint32_t* box, const std::uint32_t* element_strides,
                                      std::int32_t interleave, std::int32_t swizzle, std::int32_t promotion,
                                      std::int32_t fill);
};

/// Calls visit("driver's own name", entry) for each entry, in the order above.
template <class Api, class Visit>
void for_each_entry(Api& api, Visit&& visit) {
  visit("cuInit", api.init);
  visit("cuDriverGetVersion", api.driver_get_version);
  visit("cuGetErrorName", api.get_error_name);
  visit("cuGetErrorString", api.get_error_string);
  visit("cuDeviceGetCount", api.device_get_count);
  visit("cuDeviceGet", api.device_get);
  visit("cuDeviceGetName", api.device_get_name);
  visit("cuDeviceGetAttribute", api.device_get_attribute);
  visit("cuDeviceTotalMem", api.device_total_memory);
  visit("cuDevicePrimaryCtxRetain", api.primary_context_retain);
  visit("cuDevicePrimaryCtxRelease", api.primary_context_release);
  visit("cuCtxSetCurrent", api.context_set_current);
  visit("cuMemGetInfo", api.memory_get_info);
  visit("cuMemHostAlloc", api.host_alloc);
  visit("cuMemFreeHost", api.host_free);
  visit("cuMemcpyHtoDAsync", api.copy_to_device_async);
  visit("cuMemcpyDtoHAsync", api.copy_to_host_async);
  visit("cuMemcpyDtoDAsync", api.copy_on_device_async);
  visit("cuMemsetD8Async", api.set_bytes_async);
  visit("cuMemPoolCreate", api.pool_create);
  visit("cuMemPoolDestroy", api.pool_destroy);
  visit("cuMemPoolSetAttribute", api.pool_set_attribute);
  visit("cuMemPoolGetAttribute", api.pool_get_attribute);
  visit("cuMemPoolTrimTo", api.pool_trim);
  visit("cuMemAllocFromPoolAsync", api.pool_alloc_async);
  visit("cuMemFreeAsync", api.free_async);
  visit("cuMemGetAllocationGranularity", api.allocation_granularity);
  visit("cuMemAddressReserve", api.address_reserve);
  visit("cuMemAddressFree", api.address_free);
  visit("cuMemCreate", api.memory_create);
  visit("cuMemRelease", api.memory_release);
  visit("cuMemMap", api.memory_map);
  visit("cuMemUnmap", api.memory_unmap);
  visit("cuMemSetAccess", api.memory_set_access);
  visit("cuStreamCreate", api.stream_create);
  visit("cuStreamDestroy", api.stream_destroy);
  visit("cuStreamSynchronize", api.stream_synchronize);
  visit("cuStreamQuery", api.stream_query);
  visit("cuStreamWaitEvent", api.stream_wait_event);
  visit("cuEventCreate", api.event_create);
  visit("cuEventDestroy", api.event_destroy);
  visit("cuEventRecord", api.event_record);
  visit("cuEventSynchronize", api.event_synchronize);
  visit("cuEventQuery", api.event_query);
  visit("cuEventElapsedTime", api.event_elapsed_ms);
  visit("cuModuleLoadData", api.module_load_data);
  visit("cuModuleUnload", api.module_unload);
  visit("cuModuleGetFunction", api.module_get_function);
  visit("cuFuncGetAttribute", api.function_get_attribute);
  visit("cuFuncSetAttribute", api.function_set_attribute);
  visit("cuFuncGetParamInfo", api.function_get_param_info);
  visit("cuOccupancyMaxActiveBlocksPerMultiprocessor", api.max_active_blocks);
  visit("cuLaunchKernelEx", api.launch_kernel);
  visit("cuStreamBeginCapture", api.begin_capture);
  visit("cuStreamEndCapture", api.end_capture);
  visit("cuStreamGetCaptureInfo", api.capture_info);
  visit("cuGraphInstantiateWithFlags", api.graph_instantiate);
  visit("cuGraphDestroy", api.graph_destroy);
  visit("cuGraphExecDestroy", api.graph_exec_destroy);
  visit("cuGraphUpload", api.graph_upload);
  visit("cuGraphLaunch", api.graph_launch);
  visit("cuGraphGetNodes", api.graph_get_nodes);
  visit("cuGraphExecKernelNodeSetParams", api.graph_exec_set_kernel_params);
  visit("cuTensorMapEncodeTiled", api.tensor_map_encode_tiled);
}

}  // namespace pagoda::device::cuda
