// attention_in: queries and what lies in the pages afterwards, against the chain of references.
#include <algorithm>

#include "gpu/parity/parity.h"
#include "gpu/parity/stage_cases.h"

namespace pagoda::parity {
namespace {

/// attention_in of one case on both sides.
class AttentionIn {
 public:
  explicit AttentionIn(const InCase& c)
      : c_(c),
        weights_(make_weights(in_weights(c), c.hidden, kMostStageRows, 40)),
        problem_(in_problem(c, weights_.gpu, false)),
        exact_(in_problem(c, weights_.reference, true)),
        norm_(norm_weights(c.hidden, 1)),
        head_norm_(norm_weights(c.key_dim, 2)),
        table_(c.rope.kind == RopeKind::kNone ? nullptr : std::make_shared<kernels::RopeTable>(c.rope, kPositions)),
        gpu_norm_(Buffer::of(norm_)),
        gpu_head_norm_(Buffer::of(head_norm_)),
        gpu_rope_(table_ != nullptr ? Buffer::of(table_->rows()) : Buffer(16)) {
    Gpu& gpu = Gpu::get();
    const auto& kernel = cuda_candidate(kernels::attention_in_kernels(), problem_, gpu.caps());
    note_units(kernel.units(problem_, gpu.caps()));
    const auto* head = c.norm == QkvNorm::kNone ? nullptr : gpu_head_norm_.as<float>();
    const auto part = [&](std::size_t i) { return weights_.pairs[i]->gpu.weight; };
    step_ = kernel
                .prepare(
                    problem_,
                    {{gpu_norm_.as<float>()}, {part(0), part(1), part(2)}, {head, head, table_, gpu_rope_.as<float>()}},
                    gpu.device())
                .value();
    scratch_ = Buffer(static_cast<std::int64_t>(kernel.scratch_bytes(problem_, gpu.caps())));
    const auto& reference = reference_candidate(kernels::attention_in_kernels(), exact_);
    const auto* exact_head = c.norm == QkvNorm::kNone ? nullptr : head_norm_.data();
    const auto exact_part = [&](std::size_t i) { return weights_.pairs[i]->reference; };
    reference_ = reference
                     .prepare(exact_,
                              {{norm_.data()},
                               {exact_part(0), exact_part(1), exact_part(2)},
                               {exact_head, exact_head, table_, nullptr}},
                              gpu.reference())
                     .value();
    host_scratch_.resize(reference.scratch_bytes(exact_, gpu.reference().caps()) / 8 + 64);
    stride_ = round_up<std::int64_t>(problem_.layout.block_bytes(), 64) + 64;
    exact_stride_ = round_up<std::int64_t>(exact_.layout.block_bytes(), 64);
  }

  void run(std::int64_t m) {
    const std::int64_t hidden = c_.hidden;
    const std::vector<float> x = normal_floats(m * hidden, static_cast<unsigned>(m), 2);
    place(m);
    const std::vector<double> want = exact(x, m);
    Matrix residual(DType::kF32, m, hidden, hidden + 8);
    Matrix query(DType::kBf16, m, c_.heads * c_.key_dim);
    Buffer pages(num_pages_ * stride_);
    const Buffer positions = Buffer::of(positions_), slots = Buffer::of(slots_);
    const kernels::AttentionInArgs args{
        .residual = residual.view,
        .query = query.view,
        .step = {.num_tokens = m, .num_rows = 1, .positions = positions.as<std::int64_t>()},
        .group = {.write_slots = slots.as<std::int64_t>()},
        .pages = {.data = pages.data(), .block_stride = stride_, .num_blocks = num_pages_},
        .scratch = scratch_.data()};
    const auto reset = [&] {
      query.poison();
      pages.poison();
      scratch_.poison();
      residual.write(x);
    };
    const auto launch = [&](device::cuda::CudaStream& stream) { step_.launch(args, stream); };
    const std::string what = pagoda::format("hidden {} dims {} {} m {}", hidden, c_.key_dim, c_.value_dim, m);
    const auto error = [&](const std::vector<float>& got) { return worst(got, want, m); };
    run_every_way(reset, launch, [&](const std::string& way) {
      std::vector<float> got = gather(query, pages);
      expect_close("attention_in", what + " " + way, kBound, got, error);
      return got;
    });
    std::vector<float> changed = x;
    changed.back() += 64;
    reset();
    residual.write(changed);
    launch(Gpu::get().stream());
    EXPECT_GT(error(gather(query, pages)), kBound) << what << ": another input, and nothing is seen";
  }

 private:
  static constexpr std::int64_t kPositions = 600;
  static constexpr double kBound = 2e-2;       // three roundings to bf16, and pairs that turn into each other
  static constexpr double kFp8Bound = 7.5e-2;  // half a step of e4m3 is 1/16

  /// Positions of the tokens, and slots in pages in no order; every fourth token writes nothing.
  void place(std::int64_t m) {
    positions_.clear();
    slots_.clear();
    num_pages_ = ceil_div(m, c_.block_size) + 3;
    for (std::int64_t i = 0; i < m; ++i) {
      positions_.push_back((i * 37 + 11) % kPositions);
      const std::int64_t slot = (num_pages_ - 1 - i / c_.block_size) * c_.block_size + (i * 5 + 3) % c_.block_size;
      slots_.push_back(i % 4 == 3 ? -1 : slot);
    }
    // Slots of one page are all different: 5 and a power of two have no common divisor.
  }

  std::vector<double> exact(const std::vector<float>& x, std::int64_t m) {
    std::vector<double> in = doubles(x), query(static_cast<std::size_t>(m * c_.heads * c_.key_dim));
    std::vector<double> pages(static_cast<std::size_t>(num_pages_ * exact_stride_ / 8));
    reference_.launch({.residual = tensor::matrix(in.data(), m, c_.hidden),
                       .query = tensor::matrix(query.data(), m, c_.heads * c_.key_dim),
                       .step = {.num_tokens = m, .num_rows = 1, .positions = positions_.data()},
                       .group = {.write_slots = slots_.data()},
                       .pages = {.data = reinterpret_cast<std::byte*>(pages.data()), .block_stride = exact_stride_},
                       .scratch = reinterpret_cast<std::byte*>(host_scratch_.data())},
                      Gpu::get().host());
    std::vector<double> out = query;
    for_each_cached([&](std::int64_t slot, bool key, std::int64_t head, std::int64_t dim) {
      const KvLayout& layout = exact_.layout;
      const std::int64_t in_page = slot % c_.block_size;
      const std::int64_t at = key ? layout.key_offset(head, in_page, dim) : layout.value_offset(head, in_page, dim);
      out.push_back(pages[static_cast<std::size_t>(slot / c_.block_size * exact_stride_ / 8 + at)]);
    });
    return out;
  }

  /// Keys, then values of all slots that are written, head by head.
  template <class Visit>
  void for_each_cached(Visit&& visit) const {
    for (const bool key : {true, false}) {
      for (const std::int64_t slot : slots_) {
        for (std::int64_t head = 0; slot >= 0 && head < c_.kv_heads; ++head) {
          for (std::int64_t dim = 0; dim < (key ? c_.key_dim : c_.value_dim); ++dim) visit(slot, key, head, dim);
        }
      }
    }
  }

  /// Queries, keys, values; what no token owns is checked to be poison still.
  std::vector<float> gather(const Matrix& query, const Buffer& pages) const {
    std::vector<float> out = query.read();
    std::vector<std::byte> bytes = pages.read<std::byte>();
    const KvLayout& layout = problem_.layout;
    for_each_cached([&](std::int64_t slot, bool key, std::int64_t head, std::int64_t dim) {
      const std::int64_t in_page = slot % c_.block_size;
      const std::int64_t element =
          key ? layout.key_offset(head, in_page, dim) : layout.value_offset(head, in_page, dim);
      std::byte* const at = bytes.data() + slot / c_.block_size * stride_ + element * tensor::size_of(layout.dtype);
      if (layout.dtype == DType::kBf16) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, at, 2);
        out.push_back(bf16_to_float(bits));
        std::memset(at, 0xff, 2);
      } else {
        out.push_back(fp8_e4m3_to_float(static_cast<std::uint8_t>(*at)) *
                      (key ? layout.key_scale : layout.value_scale));
        *at = std::byte{0xff};
      }
    });
    const auto touched = std::ranges::count_if(bytes, [](std::byte b) { return b != std::byte{0xff}; });
    EXPECT_EQ(touched, 0) << "bytes of the pages that no token owns";
    return out;
  }

  /// Errors head by head. Those of an e4m3 cache are measured by its own bound.
  double worst(const std::vector<float>& got, const std::vector<double>& want, std::int64_t m) const {
    if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
    const auto queries = static_cast<std::ptrdiff_t>(m * c_.heads * c_.key_dim);
    const auto written = std::ranges::count_if(slots_, [](std::int64_t slot) { return slot >= 0; });
    const auto keys = queries + static_cast<std::ptrdiff_t>(written * c_.kv_heads * c_.key_dim);
    const auto part = [&](std::ptrdiff_t begin, std::ptrdiff_t end, std::int64_t width) {
      return row_error({got.begin() + begin, got.begin() + end}, {want.begin() + begin, want.begin() + end}, width);
    };
    const double of_cache = std::max(part(queries, keys, c_.key_dim), part(keys, std::ssize(got), c_.value_dim));
    const double share = c_.kv == DType::kFp8E4m3 ? kBound / kFp8Bound : 1;
    return std::max(part(0, queries, c_.key_dim), of_cache * share);
  }

  InCase c_;
  Weights weights_;
  kernels::AttentionInProblem problem_, exact_;
  std::vector<float> norm_, head_norm_;
  std::shared_ptr<const kernels::RopeTable> table_;
  Buffer gpu_norm_, gpu_head_norm_, gpu_rope_, scratch_;
  kernels::AttentionInStep step_, reference_;
  std::vector<double> host_scratch_;
  std::int64_t stride_ = 0, exact_stride_ = 0, num_pages_ = 0;
  std::vector<std::int64_t> positions_, slots_;
};

TEST(AttentionInOnGpu, QueriesAndPagesAreNearTheReference) {
  for (const InCase& c : in_cases()) {
    AttentionIn stage(c);
    for (const std::int64_t m : kStageRows) stage.run(m);
  }
}

}  // namespace
}  // namespace pagoda::parity
