#include "kernels/kv_store/kv_store.h"

#include <array>

#include "kernels/cpu/candidates.h"
#include "kernels/kv_store/cpu_params.h"

namespace pagoda::kernels {
namespace {

using device::CpuIsa;
using device::DeviceCaps;
using tensor::DType;

// Tokens of a piece: many whole groups of slots, so that few cache lines are written by two threads.
constexpr std::int64_t kPiece = 64;

struct ReferenceParams {
  KvStoreArgs args;
  KvLayout layout;
};

void kv_store_reference(const ReferenceParams& p, device::HostRange range) {
  for (std::int64_t token = range.begin; token < range.end; ++token) {
    const std::int64_t write_slot = p.args.write_slots[token];
    if (write_slot < 0) continue;
    const std::int64_t block = write_slot / p.layout.block_size;
    const std::int64_t slot = write_slot % p.layout.block_size;
    auto* page = reinterpret_cast<double*>(p.args.pages.data + block * p.args.pages.block_stride);
    const double* key = p.args.key.row<double>(token);
    const double* value = p.args.value.row<double>(token);
    for (std::int64_t head = 0; head < p.layout.kv_heads; ++head) {
      for (std::int64_t dim = 0; dim < p.layout.key_dim; ++dim) page[p.layout.key_offset(head, slot, dim)] = *key++;
      for (std::int64_t dim = 0; dim < p.layout.value_dim; ++dim) {
        page[p.layout.value_offset(head, slot, dim)] = *value++;
      }
    }
  }
}

Result<KvStoreStep> prepare_reference(const KvStoreProblem& problem, const KvStoreWeights&, device::Device&) {
  return KvStoreStep([problem](const KvStoreArgs& args, device::Stream& stream) {
    device::host(stream).launch(kv_store_reference, ReferenceParams{args, problem.layout}, args.key.rows, kPiece);
  });
}

template <device::HostKernel<KvStoreParams> kernel>
Result<KvStoreStep> prepare_cpu(const KvStoreProblem& problem, const KvStoreWeights&, device::Device&) {
  return KvStoreStep([problem](const KvStoreArgs& args, device::Stream& stream) {
    const KvStoreParams params{.key = args.key.row<float>(0),
                               .value = args.value.row<float>(0),
                               .write_slots = args.write_slots,
                               .pages = args.pages.data,
                               .block_stride = args.pages.block_stride,
                               .key_stride = args.key.stride,
                               .value_stride = args.value.stride,
                               .layout = problem.layout};
    device::host(stream).launch(kernel, params, args.key.rows, kPiece);
  });
}

bool reference_supports(const KvStoreProblem& problem, const DeviceCaps& caps) {
  return on_reference(problem, caps) && problem.layout.dtype == DType::kF64;
}

template <CpuIsa isa>
bool cpu_supports(const KvStoreProblem& problem, const DeviceCaps& caps) {
  const DType dtype = problem.layout.dtype;
  return on_cpu<KvStoreProblem, isa>(problem, caps) &&
         (dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32);
}

template <CpuIsa isa, device::HostKernel<KvStoreParams> kernel>
constexpr KvStoreKernel cpu(std::string_view name) {
  return {name, {"one_rounding"}, cpu_supports<isa>, no_scratch, no_units, prepare_cpu<kernel>};
}

constexpr std::array kKernels = {
    cpu<CpuIsa::kAvx512, kv_store_avx512>("cpu_avx512"),
    cpu<CpuIsa::kAvx2, kv_store_avx2>("cpu_avx2"),
    cpu<CpuIsa::kPortable, kv_store_portable>("cpu_portable"),
    KvStoreKernel{"reference", kReferenceArithmetic, reference_supports, no_scratch, no_units, prepare_reference},
};

}  // namespace

std::span<const KvStoreKernel> kv_store_kernels() { return kKernels; }

}  // namespace pagoda::kernels
