#include "pagoda/library.h"

#include <unistd.h>

#include "api/devices.h"
#include "api/library_state.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace pagoda {
namespace {

constexpr int kMostThreads = 1024;

}  // namespace

Result<Library> Library::create(LibraryOptions options) {
  if (options.threads < 0 || options.threads > kMostThreads) {
    return fail_param(ErrorCode::kInvalidArgument, "threads",
                      "threads must be from 1 to {}, or 0 for the default, not {}", kMostThreads, options.threads);
  }
  auto state = std::make_shared<State>();
  device::CpuIsa isa = device::detect_isa();
  if (!options.cpu_isa.empty()) isa = PAGODA_TRY(device::parse_isa(options.cpu_isa));
  state->cpu = PAGODA_TRY(device::cpu_caps(isa));
  state->threads = options.threads > 0 ? options.threads : ThreadPool::default_threads();
  state->options = std::move(options);
  return Library(std::move(state));
}

const LibraryOptions& Library::options() const { return state_->options; }

std::vector<DeviceInfo> Library::devices() const {
  const auto memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::vector<DeviceInfo> devices = {
      {.id = "cpu",
       .name = state_->cpu.name,
       .instructions = std::string(device::to_string(state_->cpu.isa)),
       .memory_bytes = memory},
      {.id = "reference", .name = state_->cpu.name, .instructions = {}, .memory_bytes = memory}};
  for (DeviceInfo& gpu : api::gpus(*state_)) devices.push_back(std::move(gpu));
  return devices;
}

std::vector<ModelMemory> Library::models() const {
  const std::scoped_lock lock(state_->mutex);
  std::vector<ModelMemory> models;
  for (const auto& [key, memory] : state_->ledger) models.push_back(memory);
  return models;
}

std::string_view Library::version() { return PAGODA_VERSION; }

}  // namespace pagoda
