// Sampling on a GPU: what of each slot lies where in device memory, and the kernels of a step. Same ids and
// log-probabilities as Sampler's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/compile_unit.h"
#include "device/cuda/kernel.h"
#include "device/cuda/memory.h"
#include "kernels/sample/cuda_sample.h"
#include "runtime/sampler.h"

namespace pagoda::runtime {

struct DeviceSamplerSize {
  std::int64_t vocab = 0;
  std::int32_t slots = 0;
  std::int64_t rows = 0;                    ///< most rows of logits at once
  std::vector<std::int32_t> never_drawn{};  ///< ascending ids, which get a bias of −∞ in every slot
};

/// Most biases of a request.
inline constexpr std::int32_t kMaxBias = 1024;

/// Byte offsets of the sampler's parts in one block of device memory.
struct SampleLayout {
  DeviceSamplerSize size;
  std::int64_t pieces = 0;
  std::int64_t slots = 0, bias = 0, words = 0, last_ids = 0;  // by slot
  std::int64_t rows = 0, results = 0, best = 0;               // by row
  std::int64_t states = 0, partials = 0, masses = 0, sums = 0, bins = 0, lists = 0;
  std::int64_t bytes = 0;

  /// Biases of a slot.
  std::int64_t max_bias() const { return kMaxBias + std::ssize(size.never_drawn); }
  /// Error: kUnsupportedArgument, a vocabulary that the kernels do not take.
  static Result<SampleLayout> of(const DeviceSamplerSize& size);
};

/// Bytes of a staging buffer that are to be copied to device memory.
struct SlotCopy {
  std::int64_t from = 0, to = 0, bytes = 0;
};

/// Writes a slot's state into `staging` (slot_staging_bytes) and says what goes where. Its tokens' words are among it
/// only if a penalty, a bias, min_tokens or never_drawn needs them. Error: resolve_sampling's; more biases or
/// log-probabilities than there is room for.
std::int64_t slot_staging_bytes(const SampleLayout& layout);
Result<std::vector<SlotCopy>> write_slot(const SampleLayout& layout, std::int32_t slot, const SlotSetup& setup,
                                         std::span<std::byte> staging);

/// How far a step's rows need the kernels.
enum class SampleDepth : std::uint8_t {
  kGreedy,  ///< every row that draws is plain(), and none wants log-probabilities: one kernel
  kFull,    ///< anything
};

struct SampleKernels {
  device::cuda::Kernel<kernels::CudaSampleParams> extremes, weigh, select;
  std::int32_t blocks_per_sm = 3;  ///< as many as fit

  static device::CompileUnit unit(const device::GpuCaps& caps) {
    return {
        .source = "kernels/sample/cuda_sample.cu", .defines = {"MIN_BLOCKS=3"}, .architecture = caps.architecture()};
  }
  /// Loader is a ModuleLoader, or what else gives kernels by unit and name.
  template <class Loader>
  static Result<SampleKernels> load(Loader& loader, const device::GpuCaps& caps) {
    using kernels::CudaSampleParams;
    SampleKernels all;
    all.extremes = PAGODA_TRY(loader.template kernel<CudaSampleParams>(unit(caps), "sample_extremes"));
    all.weigh = PAGODA_TRY(loader.template kernel<CudaSampleParams>(unit(caps), "sample_weigh"));
    all.select = PAGODA_TRY(loader.template kernel<CudaSampleParams>(unit(caps), "sample_select"));
    return all;
  }
};

/// Used by the engine's thread; what it starts, it starts on the stream of the steps.
class DeviceSampler {
 public:
  /// `memory`: layout.bytes of device memory at a fixed address, 256-byte aligned; set to zero here, on the stream.
  static Result<DeviceSampler> create(const SampleLayout& layout, SampleKernels kernels, std::byte* memory,
                                      device::cuda::CudaStream& stream);

  /// Starts the copies; steps launched after it see them. Error: write_slot's; then the slot is as before.
  Status set_slot(std::int32_t slot, const SlotSetup& setup, device::cuda::CudaStream& stream);

  /// As Sampler's.
  std::int32_t num_best(std::int32_t slot) const { return known_[static_cast<std::size_t>(slot)].num_best; }
  std::int32_t num_prompt_best(std::int32_t slot) const {
    return known_[static_cast<std::size_t>(slot)].num_prompt_best;
  }
  /// Whether a row of the slot that draws, and no more, is served by kGreedy.
  bool plain(std::int32_t slot) const { return known_[static_cast<std::size_t>(slot)].plain; }

  /// What the device has to know of a row: of a drawn token, and (`reports`) of a prompt token's log-probabilities,
  /// `target` being the one that follows or -1. Its best ones are in front, as many as either wants.
  kernels::CudaSampleRow row(std::int32_t slot, std::int64_t position, bool draws, bool reports = false,
                             std::int32_t target = -1) const;
  static constexpr kernels::CudaSampleRow kPadding{.position = 0, .slot = -1, .draws = 0, .target = -1, .num_best = -1};

  // Where rows are read and results written, each at a fixed address for as many rows as the size says.
  kernels::CudaSampleRow* rows() const { return part<kernels::CudaSampleRow>(layout_.rows); }
  const kernels::CudaSampleResult* results() const { return part<kernels::CudaSampleResult>(layout_.results); }
  /// Row r's begin at r · kernels::kSampleMaxBest.
  const kernels::CudaSampleBest* best() const { return part<kernels::CudaSampleBest>(layout_.best); }
  /// (slots) what was drawn last for each; untouched by a row that draws nothing.
  const std::int32_t* last_ids() const { return part<const std::int32_t>(layout_.last_ids); }

  /// One or three kernels over `num_rows` rows of logits, `stride` floats apart; captured or not.
  void launch(device::cuda::CudaStream& stream, const float* logits, std::int64_t stride, std::int64_t num_rows,
              SampleDepth depth) const;

 private:
  struct Known {
    std::int32_t num_best = -1, num_prompt_best = 0;
    bool plain = true;
  };

  DeviceSampler(const SampleLayout& layout, SampleKernels kernels, std::byte* memory, device::cuda::PinnedBytes staging,
                std::int32_t num_sms, bool programmatic)
      : layout_(layout),
        kernels_(std::move(kernels)),
        memory_(memory),
        staging_(std::move(staging)),
        num_sms_(num_sms),
        programmatic_(programmatic),
        known_(static_cast<std::size_t>(layout.size.slots)) {}

  template <class T>
  T* part(std::int64_t offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }
  kernels::CudaSampleParams params(const float* logits, std::int64_t stride) const;

  SampleLayout layout_;
  SampleKernels kernels_;
  std::byte* memory_;
  device::cuda::PinnedBytes staging_;
  std::int32_t num_sms_;
  bool programmatic_;
  std::vector<Known> known_;  // by slot
};

}  // namespace pagoda::runtime
