#include "model/weights.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "device/cuda/driver.h"
#include "kernels/linear/pack.h"

namespace pagoda::model {
namespace {

constexpr std::size_t kNumRoles = static_cast<std::size_t>(Role::kFeedForwardPostNorm) + 1;

std::size_t place(Role role, std::int32_t layer) {
  return static_cast<std::size_t>(layer + 1) * kNumRoles + static_cast<std::size_t>(role);
}

/// Rows of one tensor that are read and packed together.
struct Piece {
  std::size_t weight = 0;
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t bytes = 0;
};

}  // namespace

/// One load, shared by the pool's workers.
class Weights::Loader {
 public:
  Loader(Weights& weights, const io::ModelFile& file, const LoadProgress& progress, std::int64_t piece_bytes)
      : stored_(weights.stored_), rope_divisors_(weights.rope_divisors_), file_(file), progress_(progress) {
    for (std::size_t i = 0; i < stored_.size(); ++i) cut(i, piece_bytes);
  }

  Status run(ThreadPool& pool, device::Device& device) {
    packers_ = PAGODA_TRY(kernels::make_packers(device, pool.num_threads()));
    pool.run([](void* self, int worker) { static_cast<Loader*>(self)->work(worker); }, this);
    if (error_.has_value()) return *std::move(error_);
    if (progress_) progress_(total_, total_);
    return Ok{};
  }

 private:
  void cut(std::size_t index, std::int64_t piece_bytes) {
    const WeightPlan& plan = stored_[index].plan;
    const std::int64_t row_bytes = plan.format->row_bytes(plan.tensor.cols);
    const std::int64_t multiple = plan.layout != nullptr ? plan.layout->row_multiple : 1;
    const std::int64_t rows =
        std::max(multiple, piece_bytes / std::max<std::int64_t>(row_bytes, 1) / multiple * multiple);
    for (std::int64_t row = 0; row < plan.tensor.rows; row += rows) {
      const std::int64_t count = std::min(rows, plan.tensor.rows - row);
      pieces_.push_back({index, row, count, count * row_bytes});
      total_ += count * row_bytes;
    }
  }

  void work(int worker) {
    kernels::Packer& packer = *packers_[static_cast<std::size_t>(worker)];
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= pieces_.size() || failed_.load(std::memory_order_relaxed)) break;
      const Piece& piece = pieces_[index];
      if (!done_safely([&] { return load(piece, packer); })) break;
      const std::int64_t done = done_.fetch_add(piece.bytes, std::memory_order_relaxed) + piece.bytes;
      if (worker == 0 && progress_) progress_(done, total_);
    }
    done_safely([&]() -> Status {
      packer.finish();
      return Ok{};
    });
  }

  /// A worker's thread has no one above it who would catch. Keeps the first error.
  template <class Body>
  bool done_safely(Body&& body) {
    const Status status = [&]() -> Status {
      try {
        return body();
      } catch (const device::cuda::DeviceError& error) {
        return error.error();
      }
    }();
    if (status.ok()) return true;
    const std::lock_guard lock(mutex_);
    if (!error_.has_value()) error_ = status.error();
    failed_.store(true, std::memory_order_relaxed);
    return false;
  }

  Status load(const Piece& piece, kernels::Packer& packer) const {
    const Stored& stored = stored_[piece.weight];
    const BoundTensor& tensor = stored.plan.tensor;
    const std::span<std::byte> bytes = PAGODA_TRY(packer.staging(piece.bytes));
    PAGODA_TRY(file_.read_rows(*tensor.entry, piece.first_row, piece.num_rows, bytes));
    const quant::Format& format = *stored.plan.format;
    if (stored.plan.layout != nullptr) {
      packer.pack(format, *stored.plan.layout, {.n = tensor.rows, .k = tensor.cols}, piece.first_row, piece.num_rows,
                  stored.data);
      return piece.first_row == 0 && stored.plan.order_bytes > 0 ? load_order(stored, packer) : Status(Ok{});
    }
    if (tensor.role == Role::kRopeDivisors) {
      rope_divisors_.resize(static_cast<std::size_t>(tensor.cols));
      format.decode_row(bytes.data(), tensor.cols, rope_divisors_.data());
    }
    packer.widen(format, tensor.cols, reinterpret_cast<float*>(stored.data));
    return Ok{};
  }

  /// The order of columns and its inverse, as words that any format of 32 bits would hold.
  Status load_order(const Stored& stored, kernels::Packer& packer) const {
    const std::span<const std::int32_t> order = stored.plan.tensor.entry->column_order();
    const std::span<std::byte> bytes = PAGODA_TRY(packer.staging(stored.plan.order_bytes));
    auto* words = reinterpret_cast<std::int32_t*>(bytes.data());
    for (std::size_t c = 0; c < order.size(); ++c) {
      words[c] = order[c];
      words[order.size() + static_cast<std::size_t>(order[c])] = static_cast<std::int32_t>(c);
    }
    packer.pack(*quant::find_format("f32"), kernels::kRowsLayout, {.n = 1, .k = 2 * std::ssize(order)}, 0, 1,
                stored.data + stored.plan.bytes - stored.plan.order_bytes);
    return Ok{};
  }

  std::span<const Stored> stored_;
  std::vector<float>& rope_divisors_;                      // written by the one worker that has its piece
  std::vector<std::unique_ptr<kernels::Packer>> packers_;  // by worker
  const io::ModelFile& file_;
  const LoadProgress& progress_;
  std::vector<Piece> pieces_;
  std::int64_t total_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

Result<Weights> Weights::load(const Plan& plan, const io::ModelFile& file, ThreadPool& pool, device::Device& device,
                              const LoadProgress& progress) {
  Weights weights;
  weights.memory_ = PAGODA_TRY(device.allocate(plan.weight_bytes, "the weights", device::Use::kOften));
  weights.index_.assign((plan.spec.layers.size() + 1) * kNumRoles, -1);
  std::int64_t offset = 0;
  for (const WeightPlan& weight : plan.weights) {
    weights.index_[place(weight.tensor.role, weight.tensor.layer)] = static_cast<std::int32_t>(weights.stored_.size());
    weights.stored_.push_back({weight, weights.memory_.data() + offset});
    offset += round_up<std::int64_t>(weight.bytes, kernels::kLayoutAlignment);
  }
  PAGODA_CHECK(offset == plan.weight_bytes, "{} of {} bytes", offset, plan.weight_bytes);
  Loader loader(weights, file, progress, kernels::piece_bytes(device.caps()));
  PAGODA_TRY(loader.run(pool, device));
  // The catalog's entries belong to the file, which may be closed now.
  for (Stored& stored : weights.stored_) stored.plan.tensor.entry = nullptr;
  return weights;
}

const Weights::Stored* Weights::find(Role role, std::int32_t layer) const {
  const std::int32_t index = index_[place(role, layer)];
  return index < 0 ? nullptr : &stored_[static_cast<std::size_t>(index)];
}

kernels::LinearWeight Weights::matrix(Role role, std::int32_t layer, Role bias_role) const {
  const Stored* stored = find(role, layer);
  PAGODA_CHECK(stored != nullptr && stored->plan.layout != nullptr, "{} of layer {}", to_string(role), layer);
  return {.format = stored->plan.format,
          .layout = stored->plan.layout,
          .shape = {.n = stored->plan.tensor.rows, .k = stored->plan.tensor.cols},
          .data = stored->data,
          .bias = bias_role == role ? nullptr : vector(bias_role, layer),
          .order = stored->plan.order_bytes == 0 ? nullptr
                                                 : reinterpret_cast<const std::int32_t*>(
                                                       stored->data + stored->plan.bytes - stored->plan.order_bytes)};
}

const float* Weights::vector(Role role, std::int32_t layer) const {
  const Stored* stored = find(role, layer);
  if (stored == nullptr) return nullptr;
  PAGODA_CHECK(stored->plan.layout == nullptr, "{} is a matrix", to_string(role));
  return reinterpret_cast<const float*>(stored->data);
}

}  // namespace pagoda::model
