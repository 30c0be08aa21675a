#include "device/cuda/kernel.h"

namespace pagoda::device::cuda {

Result<std::shared_ptr<const Module>> Module::load(ContextPtr context, std::span<const std::byte> image) {
  std::shared_ptr<Module> module(new Module(std::move(context)));
  const Context& owner = *module->context_;
  if (const Result32 result = owner.api().module_load_data(&module->handle_, image.data()); result != kSuccess) {
    Error error = owner.driver().error_of(result, "loading device code");
    if (error.code == ErrorCode::kDeviceLost) error.code = ErrorCode::kDeviceUnfit;
    return error;
  }
  return std::shared_ptr<const Module>(std::move(module));
}

Module::~Module() {
  if (handle_ != nullptr) context_->api().module_unload(handle_);
}

Result<FunctionHandle> Module::function(const std::string& name, std::size_t params_bytes) const {
  const DriverApi& api = context_->api();
  FunctionHandle handle = nullptr;
  if (const Result32 result = api.module_get_function(&handle, handle_, name.c_str()); result != kSuccess) {
    return fail(ErrorCode::kInternal, "the device code has no kernel {}", name);
  }
  std::size_t offset = 0;
  std::size_t bytes = 0;
  const bool first = api.function_get_param_info(handle, 0, &offset, &bytes) == kSuccess;
  std::size_t second_bytes = 0;
  const bool second = api.function_get_param_info(handle, 1, &offset, &second_bytes) == kSuccess;
  if (!first || second || bytes != params_bytes) {
    return fail(ErrorCode::kInternal, "kernel {} takes {} bytes of parameters, the host gives {}", name, bytes,
                params_bytes);
  }
  return handle;
}

GraphNode Function::launch(CudaStream& stream, const LaunchConfig& config, const void* params) const {
  LaunchAttribute attributes[2];
  std::uint32_t count = 0;
  if (config.programmatic && stream.programmatic()) {
    attributes[count].id = kLaunchProgrammaticSerialization;
    attributes[count++].value.enabled = 1;
  }
  if (config.cluster > 1) {
    attributes[count].id = kLaunchClusterDimension;
    attributes[count].value.cluster[0] = config.cluster;
    attributes[count].value.cluster[1] = 1;
    attributes[count++].value.cluster[2] = 1;
  }
  const LaunchParams launch{.grid_x = config.grid.x,
                            .grid_y = config.grid.y,
                            .grid_z = config.grid.z,
                            .block_x = config.block.x,
                            .block_y = config.block.y,
                            .block_z = config.block.z,
                            .shared_bytes = config.shared_bytes,
                            .stream = stream.handle(),
                            .attributes = attributes,
                            .num_attributes = count};
  void* arguments[] = {const_cast<void*>(params)};
  const Context& context = stream.context();
  context.driver().check(context.api().launch_kernel(&launch, handle_, arguments, nullptr), "launching a kernel");
  return stream.capturing() ? stream.last_captured_node() : nullptr;
}

void Function::allow_shared_bytes(std::int64_t bytes) const {
  const Context& context = *module_->context_ptr();
  std::int32_t allowed = 0;
  context.driver().check(context.api().function_get_attribute(&allowed, kFunctionMaxDynamicShared, handle_),
                         "asking a kernel's shared memory");
  if (allowed >= bytes) return;  // another launch of the same kernel wants more
  context.driver().check(
      context.api().function_set_attribute(handle_, kFunctionMaxDynamicShared, static_cast<std::int32_t>(bytes)),
      "raising a kernel's shared memory");
}

FunctionResources Function::resources() const {
  const Context& context = *module_->context_ptr();
  const auto ask = [&](std::int32_t which) {
    std::int32_t value = 0;
    context.driver().check(context.api().function_get_attribute(&value, which, handle_), "asking a kernel's resources");
    return value;
  };
  return {.registers = ask(kFunctionNumRegisters),
          .shared_bytes = ask(kFunctionSharedBytes),
          .local_bytes = ask(kFunctionLocalBytes),
          .max_threads = ask(kFunctionMaxThreads)};
}

std::int32_t Function::max_active_blocks(std::int32_t threads, std::int64_t shared_bytes) const {
  const Context& context = *module_->context_ptr();
  std::int32_t blocks = 0;
  context.driver().check(
      context.api().max_active_blocks(&blocks, handle_, threads, static_cast<std::size_t>(shared_bytes)),
      "asking a kernel's occupancy");
  return blocks;
}

}  // namespace pagoda::device::cuda
