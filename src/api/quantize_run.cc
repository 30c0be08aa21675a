#include "api/quantize_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "quant/encode.h"

namespace pagoda::api {
namespace {

/// Values share a scale: of a row where one became no number, the one that did it.
std::int64_t culprit(std::span<const float> values, std::int64_t at, std::int64_t cols) {
  const std::int64_t begin = at / cols * cols;
  for (std::int64_t i = begin; i < begin + cols; ++i) {
    const float value = values[static_cast<std::size_t>(i)];
    if (!std::isfinite(value)) return i;
    if (std::fabs(value) > std::fabs(values[static_cast<std::size_t>(at)])) at = i;
  }
  return at;
}

constexpr std::int64_t kPieceElements = std::int64_t{1} << 18;

/// Rows of one tensor that are encoded and written together.
struct Piece {
  std::size_t job = 0;
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  // What came of it.
  double error_squares = 0;
  double value_squares = 0;
  double largest_error = 0;
  float peak = 0;
};

/// One worker's memory.
struct Buffers {
  std::vector<std::byte> read;
  std::vector<std::byte> written;
  std::vector<float> values;
  std::vector<float> decoded;
};

class Run {
 public:
  Run(const io::ModelFile& from, const std::vector<TensorJob>& jobs, const std::vector<TensorSink>& sinks,
      const QuantizeOptions& options)
      : from_(from), jobs_(jobs), sinks_(sinks), options_(options), peaks_(jobs.size()) {
    for (std::size_t i = 0; i < jobs.size(); ++i) cut(i);
  }

  Result<std::vector<QuantizedTensor>> run(ThreadPool& pool) {
    for (const bool peaks : {true, false}) {
      finding_peaks_ = peaks;
      next_.store(0);
      pool.run([](void* self, int worker) { static_cast<Run*>(self)->work(worker); }, this);
      if (error_.has_value()) return *std::move(error_);
      for (const Piece& piece : pieces_) peaks_[piece.job] = std::max(peaks_[piece.job], piece.peak);
    }
    tell(total_);
    std::vector<QuantizedTensor> tensors;
    for (std::size_t i = 0; i < jobs_.size(); ++i) tensors.push_back(sum_up(i));
    return tensors;
  }

 private:
  void cut(std::size_t index) {
    const model::BoundTensor& tensor = jobs_[index].source;
    const std::int64_t multiple = jobs_[index].row_multiple;
    const std::int64_t wanted = kPieceElements / std::max<std::int64_t>(tensor.cols, 1) / multiple * multiple;
    const std::int64_t rows = std::max(multiple, wanted);
    for (std::int64_t row = 0; row < tensor.rows; row += rows) {
      pieces_.push_back({.job = index, .first_row = row, .num_rows = std::min(rows, tensor.rows - row)});
      total_ += read_bytes(pieces_.back()) * (jobs_[index].wants_peak ? 2 : 1);
    }
  }

  std::int64_t read_bytes(const Piece& piece) const {
    const model::BoundTensor& tensor = jobs_[piece.job].source;
    return piece.num_rows * tensor.entry->format->row_bytes(tensor.cols);
  }

  void work(int worker) {
    Buffers buffers;
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= pieces_.size() || failed_.load(std::memory_order_relaxed)) return;
      if (finding_peaks_ && !jobs_[pieces_[index].job].wants_peak) continue;
      const Status status = made(pieces_[index], buffers);
      if (!status.ok()) return keep(status.error());
      const std::int64_t bytes = read_bytes(pieces_[index]);
      const std::int64_t done = done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      if (worker == 0) tell(done);
    }
  }

  void tell(std::int64_t done) const {
    if (!options_.progress) return;
    options_.progress({.stage = ProgressStage::kQuantize,
                       .done = static_cast<std::uint64_t>(done),
                       .total = static_cast<std::uint64_t>(total_)});
  }

  void keep(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_.has_value()) error_ = std::move(error);
    failed_.store(true, std::memory_order_relaxed);
  }

  /// A worker's thread has no one above it who would catch what memory throws.
  Status made(Piece& piece, Buffers& buffers) const {
    if (options_.cancelled && options_.cancelled()) {
      return fail(ErrorCode::kCancelled, "quantising was interrupted; nothing was written");
    }
    try {
      return make(piece, buffers);
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kOutOfMemory, "there is not enough memory to quantise {}", jobs_[piece.job].target.name);
    }
  }

  Status make(Piece& piece, Buffers& buffers) const {
    const TensorJob& job = jobs_[piece.job];
    const std::int64_t cols = job.source.cols;
    const auto count = static_cast<std::size_t>(piece.num_rows * cols);
    const quant::Format& to = *job.target.format;
    PAGODA_TRY(read(piece, job, buffers));
    if (finding_peaks_) {
      for (const float value : buffers.values) piece.peak = std::max(piece.peak, std::fabs(value));
      return Ok{};
    }
    const std::vector<std::byte>* bytes = &buffers.read;
    if (!job.verbatim()) {
      buffers.written.resize(static_cast<std::size_t>(piece.num_rows * to.row_bytes(cols)));
      buffers.decoded.resize(count);
      encode(job, piece.num_rows, buffers);
      for (std::int64_t row = 0; row < piece.num_rows; ++row) {
        to.decode_row(buffers.written.data() + row * to.row_bytes(cols), cols, buffers.decoded.data() + row * cols);
      }
      PAGODA_TRY(compare(piece, job, buffers));
      bytes = &buffers.written;
    }
    return sinks_[piece.job](piece.first_row, piece.num_rows, *bytes);
  }

  void encode(const TensorJob& job, std::int64_t rows, Buffers& buffers) const {
    const std::int64_t cols = job.source.cols;
    const quant::Format& to = *job.target.format;
    if (job.encode) {
      const auto index = static_cast<std::size_t>(&job - jobs_.data());
      return job.encode(buffers.values.data(), rows, cols, peaks_[index], buffers.written.data());
    }
    const quant::EncodeRow encode_row = quant::find_encoder(to);
    PAGODA_CHECK(encode_row != nullptr && to.divides(cols), "{} columns as {}", cols, to.name);
    encode_row(buffers.values.data(), rows * cols, buffers.written.data());
  }

  /// The piece's bytes, and unless they go over as they are, its values.
  Status read(const Piece& piece, const TensorJob& job, Buffers& buffers) const {
    const quant::Format& format = *job.source.entry->format;
    const std::int64_t row_bytes = format.row_bytes(job.source.cols);
    buffers.read.resize(static_cast<std::size_t>(piece.num_rows * row_bytes));
    if (job.order == RowOrder::kAsRead) {
      PAGODA_TRY(from_.read_rows(*job.source.entry, piece.first_row, piece.num_rows, buffers.read));
    } else {
      for (std::int64_t row = 0; row < piece.num_rows; ++row) {
        const std::span into(buffers.read.data() + row * row_bytes, static_cast<std::size_t>(row_bytes));
        PAGODA_TRY(read_moved(job, source_row(job, piece.first_row + row), into));
      }
    }
    const std::span<const std::int32_t> order = job.source.entry->column_order();
    if (job.verbatim()) {
      if (order.empty()) return Ok{};
      return fail(ErrorCode::kFormatUnsupported,
                  "{}: its columns are in the order of their groups, which a {} of another layout cannot hold: choose "
                  "another format",
                  job.source.entry->name, format.name);
    }
    const std::int64_t cols = job.source.cols;
    buffers.values.resize(static_cast<std::size_t>(piece.num_rows * cols));
    for (std::int64_t row = 0; row < piece.num_rows; ++row) {
      float* const values = buffers.values.data() + row * cols;
      format.decode_row(buffers.read.data() + row * row_bytes, cols, values);
      if (order.empty()) continue;
      const std::vector<float> in_groups(values, values + cols);
      for (std::int64_t c = 0; c < cols; ++c)
        values[order[static_cast<std::size_t>(c)]] = in_groups[static_cast<std::size_t>(c)];
    }
    if (job.shift != 0) {
      for (float& value : buffers.values) value += job.shift;
    }
    return Ok{};
  }

  /// A row, or an element of a vector whose elements are moved.
  Status read_moved(const TensorJob& job, std::int64_t row, std::span<std::byte> into) const {
    if (job.source.matrix) return from_.read_rows(*job.source.entry, row, 1, into);
    return from_.read_bytes(*job.source.entry, static_cast<std::uint64_t>(row) * into.size(), into);
  }

  Status compare(Piece& piece, const TensorJob& job, const Buffers& buffers) const {
    bool whole = true;
    for (std::size_t i = 0; i < buffers.values.size(); ++i) {
      const double value = buffers.values[i];
      const double error = buffers.decoded[i] - value;
      piece.error_squares += error * error;
      piece.value_squares += value * value;
      piece.largest_error = std::max(piece.largest_error, std::fabs(error));
      whole &= std::isfinite(error);
    }
    if (whole) return Ok{};
    for (std::size_t i = 0; i < buffers.values.size(); ++i) {
      if (std::isfinite(static_cast<double>(buffers.decoded[i]) - buffers.values[i])) continue;
      const std::int64_t at = culprit(buffers.values, static_cast<std::int64_t>(i), job.source.cols);
      return fail(ErrorCode::kConfigRange, "{}: tensor {} has {} in row {}, column {}, which {} cannot hold",
                  from_.path(), job.source.entry->name, buffers.values[static_cast<std::size_t>(at)],
                  piece.first_row + at / job.source.cols, at % job.source.cols, job.target.format->name);
    }
    return Ok{};
  }

  /// Pieces' figures are added in their order, so that the table does not depend on the threads.
  QuantizedTensor sum_up(std::size_t index) const {
    const TensorJob& job = jobs_[index];
    double error_squares = 0;
    double value_squares = 0;
    double largest = 0;
    for (const Piece& piece : pieces_) {
      if (piece.job != index) continue;
      error_squares += piece.error_squares;
      value_squares += piece.value_squares;
      largest = std::max(largest, piece.largest_error);
    }
    return {.name = job.target.name,
            .layer = job.source.layer,
            .from = std::string(job.source.entry->format->name),
            .to = std::string(job.target.format->name),
            .elements = job.source.rows * job.source.cols,
            .bytes = static_cast<std::int64_t>(job.target.bytes()),
            .relative_rms = value_squares > 0 ? std::sqrt(error_squares / value_squares) : 0,
            .largest_error = largest};
  }

  const io::ModelFile& from_;
  const std::vector<TensorJob>& jobs_;
  const std::vector<TensorSink>& sinks_;
  const QuantizeOptions& options_;
  std::vector<float> peaks_;  // by job
  bool finding_peaks_ = false;
  std::vector<Piece> pieces_;
  std::int64_t total_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<QuantizedTensor>> run_jobs(const io::ModelFile& from, const std::vector<TensorJob>& jobs,
                                              const std::vector<TensorSink>& sinks, ThreadPool& pool,
                                              const QuantizeOptions& options) {
  PAGODA_CHECK(jobs.size() == sinks.size(), "{} jobs for {} sinks", jobs.size(), sinks.size());
  return Run(from, jobs, sinks, options).run(pool);
}

}  // namespace pagoda::api
