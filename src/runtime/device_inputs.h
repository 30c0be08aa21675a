#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "kernels/kv_store/cuda_block_tables.h"
#include "model/decoder.h"
#include "model/plan.h"
#include "sched/batch.h"

namespace pagoda::runtime {

/// What a step's kernels read on a GPU, at fixed addresses: written into one of two pinned buffers in turn and brought
/// over by one copy. Block tables stay on the device; only entries that changed travel.
///
/// There are two sets of addresses: a small one that captured decode steps read, and one for any step.
class DeviceInputs {
 public:
  /// Errors: kDeviceMemory, kOutOfMemory.
  static Result<DeviceInputs> create(const model::Plan& plan, device::cuda::CudaDevice& device,
                                     std::int64_t most_decode_rows);

  /// What it needs compiled.
  static device::CompileUnit unit(const device::DeviceCaps& caps);

  /// Starts the copy of a batch. `wanted` are the tokens whose logits are needed. With `decode_rows` > 0 the batch,
  /// which has one token a row, goes where captured steps read it, padded to so many rows that compute nothing of use
  /// and write nothing.
  void write(const sched::Batch& batch, std::span<const std::int64_t> wanted, std::int64_t decode_rows,
             device::cuda::CudaStream& stream);

  /// The inputs of the batch written last. `last_ids` stays what it was set to.
  const model::DecoderInputs& get() const { return inputs_; }

  /// For capture: a step of so many rows of one token each, all of them wanted.
  model::DecoderInputs decode_inputs(std::int64_t rows);

  void set_last_ids(const std::int32_t* last_ids) { last_ids_ = last_ids; }

 private:
  /// Offsets of the arrays in one set.
  struct Region {
    std::int64_t begin = 0;  // in device memory
    std::int64_t tokens = 0, rows = 0;
    std::int64_t ids = 0, positions = 0, row_offsets = 0, row_starts = 0, wanted = 0;
    std::vector<std::int64_t> write_slots, items;  // by group
    std::int64_t changes = 0;                      // the last: as many as there are
    std::int64_t bytes = 0;
  };

  Region make_region(std::int64_t begin, std::int64_t tokens, std::int64_t rows, bool prefill) const;
  model::DecoderInputs inputs_of(const Region& region, std::int64_t rows, std::int64_t tokens);
  template <class T>
  T* at(std::byte* base, std::int64_t offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  void write_rows(const sched::Batch& batch, const Region& region, std::int64_t padded_rows, std::byte* host) const;
  std::int64_t write_items(const sched::Batch& batch, const Region& region, std::size_t group, std::byte* host) const;
  std::int64_t write_changes(const sched::Batch& batch, const Region& region, std::byte* host);

  std::int64_t block_size_ = 0, max_blocks_ = 0, max_rows_ = 0, vocab_ = 0;
  std::vector<std::int64_t> item_tokens_;  // by group
  std::int32_t least_item_ = 2;            // tokens of a row that the prefill kernel takes
  Region decode_, any_;
  std::vector<device::cuda::PinnedBytes> staging_;  // two, in turn
  std::size_t turn_ = 0;
  device::Memory memory_;  // both regions, then the block tables
  std::int32_t* tables_ = nullptr;
  std::vector<std::int32_t> mirror_;  // what the device's tables hold: (groups, max_rows, max_blocks)
  device::cuda::Kernel<kernels::CudaBlockTablesParams> update_;
  bool programmatic_ = false;
  const std::int32_t* last_ids_ = nullptr;
  std::vector<kernels::GroupInputs> decode_groups_, any_groups_;
  model::DecoderInputs inputs_;
};

}  // namespace pagoda::runtime
