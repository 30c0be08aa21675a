// attention: rows of one token and longer ones, alone and mixed, over pages whose unwritten slots are NaN.
#include <algorithm>
#include <numeric>
#include <optional>

#include "gpu/parity/attention_cases.h"
#include "gpu/parity/parity.h"
#include "kernels/attention/cuda_attention.h"
#include "kernels/attention/cuda_prefill.h"

namespace pagoda::parity {
namespace {

using kernels::AttentionProblem;
using kernels::KvLayout;
using kernels::PrefillItem;
using tensor::DType;

constexpr double kBound = 1.5e-2;  // of the mean size of a head's output: weights of keys and outputs are bf16

const kernels::AttentionKernel& reference_kernel(const AttentionProblem& problem) {
  const auto* kernel = kernels::choose(kernels::attention_kernels(), problem, device::reference_caps());
  PAGODA_CHECK(kernel != nullptr, "the reference takes not all");
  return *kernel;
}

/// The step's arrays on the host, and its sequences' keys and values as the cache holds them, token by token.
struct StepData {
  std::int64_t tokens = 0, used_tokens = 0, num_rows = 0, single_rows = 0, max_blocks = 0, num_pages = 0;
  std::vector<std::int64_t> row_offsets, row_starts;
  std::vector<std::int32_t> tables;
  std::vector<float> query;
  std::vector<std::vector<float>> keys, values;  // a row: (start + count, kv_heads · dim)
  std::vector<PrefillItem> items;
};

/// e4m3 codes that stand for numbers; bits of sign, and magnitudes up to 15.
std::uint8_t random_e4m3(std::mt19937& random) {
  return static_cast<std::uint8_t>((random() % 2 << 7) | random() % 0x58);
}

class AttentionRun {
 public:
  explicit AttentionRun(const AttentionCase& c) : c_(c), problem_(problem_of(c, false)), exact_(problem_of(c, true)) {
    Gpu& gpu = Gpu::get();
    PAGODA_CHECK(c_.kernel().supports(problem_, gpu.caps()), "{}", c.name());
    note_units(c_.kernel().units(problem_, gpu.caps()));
    sinks_ = normal_floats(c.heads, 7, 2);
    gpu_sinks_ = Buffer::of(sinks_);
    work_ = Buffer(static_cast<std::int64_t>(kernels::attention_work_bytes(problem_, gpu.caps())));
    schedule_ = kernels::prepare_attention_schedule(problem_, work_.data(), gpu.device()).value();
    step_ = c_.kernel().prepare(problem_, {gpu_sinks_.as<float>()}, gpu.device()).value();
    scratch_ = Buffer(static_cast<std::int64_t>(c_.kernel().scratch_bytes(problem_, gpu.caps())));
    exact_.workers = gpu.host().num_workers();
    const auto& reference = reference_kernel(exact_);
    reference_ = reference.prepare(exact_, {sinks_.data()}, gpu.reference()).value();
    host_scratch_.resize(reference.scratch_bytes(exact_, gpu.reference().caps()) / 8 + 64);
    stride_ = round_up<std::int64_t>(problem_.layout.block_bytes(), 64) + 128;
  }

  void run(const StepCase& step) {
    make(step);
    const std::vector<double> want = exact();
    Matrix query(DType::kBf16, data_.tokens, c_.heads * c_.key_dim);
    Matrix output(DType::kBf16, data_.tokens, c_.heads * c_.value_dim);
    query.write(data_.query);
    const Buffer pages = Buffer::of(gpu_pages(std::nullopt));
    const Buffer offsets = Buffer::of(data_.row_offsets), starts = Buffer::of(data_.row_starts),
                 tables = Buffer::of(data_.tables);
    const Buffer items = data_.items.empty() ? Buffer(16) : Buffer::of(data_.items);
    kernels::AttentionArgs args{.query = query.view,
                                .output = output.view,
                                .step = {.num_tokens = data_.tokens,
                                         .num_rows = data_.num_rows,
                                         .row_offsets = offsets.as<std::int64_t>(),
                                         .row_starts = starts.as<std::int64_t>(),
                                         .num_single_rows = data_.single_rows},
                                .group = {.block_tables = tables.as<std::int32_t>(),
                                          .max_blocks = data_.max_blocks,
                                          .work = work_.data(),
                                          .prefill_items = items.data(),
                                          .num_prefill_items = std::ssize(data_.items)},
                                .pages = {.data = pages.data(), .block_stride = stride_, .num_blocks = data_.num_pages},
                                .scratch = scratch_.data()};
    const auto launch = [&](device::cuda::CudaStream& stream) {
      schedule_.launch({args.step, args.group}, stream);
      step_.launch(args, stream);
    };
    const auto reset = [&] {
      output.poison();
      scratch_.poison();
    };
    const std::string what = c_.name() + ": " + step.name;
    const auto error = [&](const std::vector<float>& got) { return row_error(got, want, c_.value_dim); };
    run_every_way(reset, launch, [&](const std::string& way) {
      std::vector<float> got = output.read();
      const auto used = data_.used_tokens * c_.heads * c_.value_dim;
      const bool zeros = std::all_of(got.begin() + used, got.end(), [](float value) { return value == 0; });
      EXPECT_TRUE(zeros) << what << ": padding";
      std::vector<float> outputs(got.begin(), got.begin() + used);
      expect_close(c_.kv == DType::kFp8E4m3 ? "attention over e4m3" : "attention", what + " " + way, kBound, outputs,
                   error);
      return got;
    });
    // The last key of each row is another one: the comparison sees it.
    const Buffer others = Buffer::of(gpu_pages(0));
    args.pages.data = others.data();
    reset();
    launch(Gpu::get().stream());
    std::vector<float> got = output.read();
    got.resize(static_cast<std::size_t>(data_.used_tokens * c_.heads * c_.value_dim));
    EXPECT_GT(error(got), kBound) << what << ": other values, and nothing is seen";
  }

 private:
  void make(const StepCase& step) {
    data_ = StepData{};
    std::mt19937 random(static_cast<unsigned>(step.rows.size() * 31));
    data_.num_rows = std::ssize(step.rows) + step.padded_rows;
    data_.row_offsets = {0};
    std::int64_t blocks = 0;
    for (const Row& row : step.rows) {
      data_.row_starts.push_back(row.start);
      data_.row_offsets.push_back(data_.row_offsets.back() + row.count);
      data_.single_rows += row.count == 1 ? 1 : 0;
      const std::int64_t length = row.start + row.count;
      data_.max_blocks = std::max(data_.max_blocks, ceil_div(length, c_.block_size) + 1);
      blocks += ceil_div(length, c_.block_size);
      data_.keys.push_back(cached(length * c_.kv_heads * c_.key_dim, problem_.layout.key_scale, random));
      data_.values.push_back(cached(length * c_.kv_heads * c_.value_dim, problem_.layout.value_scale, random));
    }
    data_.used_tokens = data_.row_offsets.back();
    data_.tokens = data_.used_tokens + step.padded_rows;
    data_.row_offsets.resize(static_cast<std::size_t>(data_.num_rows + 1), data_.used_tokens);
    data_.row_starts.resize(static_cast<std::size_t>(data_.num_rows), 0);
    data_.single_rows += step.padded_rows;
    data_.num_pages = blocks + 3;
    data_.query = bf16_floats(normal_floats(data_.tokens * c_.heads * c_.key_dim, 3, c_.gain));
    for (auto i = static_cast<std::size_t>(data_.used_tokens * c_.heads * c_.key_dim); i < data_.query.size(); ++i) {
      data_.query[i] = std::numeric_limits<float>::quiet_NaN();
    }
    fill_tables(step, random);
    fill_items(step);
  }

  /// What the cache keeps of normal numbers.
  std::vector<float> cached(std::int64_t count, float scale, std::mt19937& random) const {
    if (c_.kv == DType::kBf16) return bf16_floats(normal_floats(count, static_cast<unsigned>(random()), 1));
    std::vector<float> out(static_cast<std::size_t>(count));
    for (float& x : out) x = fp8_e4m3_to_float(random_e4m3(random)) * scale;
    return out;
  }

  /// Pages in no order; those wholly behind the window of a row's first token have been returned.
  void fill_tables(const StepCase& step, std::mt19937& random) {
    std::vector<std::int32_t> pages(static_cast<std::size_t>(data_.num_pages));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    data_.tables.assign(static_cast<std::size_t>(data_.num_rows * data_.max_blocks), -1);
    std::size_t next = 0;
    for (std::size_t r = 0; r < step.rows.size(); ++r) {
      const auto [start, count] = step.rows[r];
      const std::int64_t lowest = c_.window > 0 ? std::max<std::int64_t>(0, start - c_.window + 1) : 0;
      for (std::int64_t block = 0; block * c_.block_size < start + count; ++block, ++next) {
        if ((block + 1) * c_.block_size <= lowest) continue;
        data_.tables[r * static_cast<std::size_t>(data_.max_blocks) + static_cast<std::size_t>(block)] = pages[next];
      }
    }
  }

  void fill_items(const StepCase& step) {
    const std::int64_t most = kernels::prefill_item_tokens(problem_, Gpu::get().caps());
    for (std::size_t r = 0; r < step.rows.size(); ++r) {
      const auto [start, count] = step.rows[r];
      for (std::int64_t i = 0; (count > 1 || c_.deterministic) && i < count; i += most) {
        data_.items.push_back({.row = static_cast<std::int32_t>(r),
                               .token = static_cast<std::int32_t>(data_.row_offsets[r] + i),
                               .count = static_cast<std::int32_t>(std::min(most, count - i)),
                               .position = static_cast<std::int32_t>(start + i)});
      }
    }
    std::ranges::sort(data_.items, std::ranges::greater(), &PrefillItem::position);
  }

  /// Calls visit(page, slot, row, token) for every key that is in the cache.
  template <class Visit>
  void for_each_key(Visit&& visit) const {
    for (std::size_t r = 0; r < data_.keys.size(); ++r) {
      const std::int64_t length = std::ssize(data_.keys[r]) / (c_.kv_heads * c_.key_dim);
      for (std::int64_t token = 0; token < length; ++token) {
        const std::int32_t page = data_.tables[r * static_cast<std::size_t>(data_.max_blocks) +
                                               static_cast<std::size_t>(token / c_.block_size)];
        if (page >= 0) visit(page, token % c_.block_size, r, token, token + 1 == length);
      }
    }
  }

  /// Pages of the GPU's layout: NaN but where a key lies. With `broken`, that element of each row's last value differs.
  std::vector<std::uint8_t> gpu_pages(std::optional<std::int64_t> broken) const {
    const KvLayout& layout = problem_.layout;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(data_.num_pages * stride_), 0xff);
    const auto put = [&](std::int64_t page, std::int64_t element, float value, float scale) {
      std::uint8_t* const at = bytes.data() + page * stride_ + element * tensor::size_of(layout.dtype);
      if (layout.dtype == DType::kBf16) {
        const std::uint16_t bits = float_to_bf16(value);
        std::memcpy(at, &bits, 2);
        return;
      }
      *at = code_of(value / scale);
    };
    for_each_key([&](std::int64_t page, std::int64_t slot, std::size_t r, std::int64_t token, bool last) {
      for (std::int64_t head = 0; head < c_.kv_heads; ++head) {
        for (std::int64_t dim = 0; dim < c_.key_dim; ++dim) {
          const float key = data_.keys[r][static_cast<std::size_t>((token * c_.kv_heads + head) * c_.key_dim + dim)];
          put(page, layout.key_offset(head, slot, dim), key, layout.key_scale);
        }
        for (std::int64_t dim = 0; dim < c_.value_dim; ++dim) {
          float value = data_.values[r][static_cast<std::size_t>((token * c_.kv_heads + head) * c_.value_dim + dim)];
          if (last && broken == dim) value = value > 0 ? -448 * layout.value_scale : 448 * layout.value_scale;
          put(page, layout.value_offset(head, slot, dim), value, layout.value_scale);
        }
      }
    });
    return bytes;
  }

  /// The code of a number that e4m3 holds exactly.
  static std::uint8_t code_of(float value) {
    static const std::vector<std::uint8_t> codes = [] {  // by bf16, which holds each of them
      std::vector<std::uint8_t> all(1 << 16, 0xff);
      for (int code = 0; code < 255; ++code) {
        all[float_to_bf16(fp8_e4m3_to_float(static_cast<std::uint8_t>(code)))] = static_cast<std::uint8_t>(code);
      }
      return all;
    }();
    const std::uint8_t code = codes[float_to_bf16(value)];
    PAGODA_CHECK(fp8_e4m3_to_float(code) == value, "{} is no e4m3", value);
    return code;
  }

  std::vector<double> exact() {
    const KvLayout& layout = exact_.layout;
    const std::int64_t stride = round_up<std::int64_t>(layout.block_bytes(), 64);
    std::vector<double> pages(static_cast<std::size_t>(data_.num_pages * stride / 8),
                              std::numeric_limits<double>::quiet_NaN());
    for_each_key([&](std::int64_t page, std::int64_t slot, std::size_t r, std::int64_t token, bool) {
      double* const to = pages.data() + page * stride / 8;
      for (std::int64_t head = 0; head < c_.kv_heads; ++head) {
        const std::int64_t at = token * c_.kv_heads + head;
        for (std::int64_t dim = 0; dim < c_.key_dim; ++dim) {
          to[layout.key_offset(head, slot, dim)] =
              static_cast<double>(data_.keys[r][static_cast<std::size_t>(at * c_.key_dim + dim)]);
        }
        for (std::int64_t dim = 0; dim < c_.value_dim; ++dim) {
          to[layout.value_offset(head, slot, dim)] =
              static_cast<double>(data_.values[r][static_cast<std::size_t>(at * c_.value_dim + dim)]);
        }
      }
    });
    const std::int64_t tokens = data_.used_tokens, rows = std::ssize(data_.keys);
    std::vector<double> query = doubles(data_.query);
    std::vector<double> output(static_cast<std::size_t>(tokens * c_.heads * c_.value_dim));
    reference_.launch({.query = tensor::matrix(query.data(), tokens, c_.heads * c_.key_dim),
                       .output = tensor::matrix(output.data(), tokens, c_.heads * c_.value_dim),
                       .step = {.num_tokens = tokens,
                                .num_rows = rows,
                                .row_offsets = data_.row_offsets.data(),
                                .row_starts = data_.row_starts.data(),
                                .num_single_rows = data_.single_rows},
                       .group = {.block_tables = data_.tables.data(), .max_blocks = data_.max_blocks},
                       .pages = {.data = reinterpret_cast<std::byte*>(pages.data()), .block_stride = stride},
                       .scratch = reinterpret_cast<std::byte*>(host_scratch_.data())},
                      Gpu::get().host());
    return output;
  }

  AttentionCase c_;
  AttentionProblem problem_, exact_;
  std::vector<float> sinks_;
  Buffer gpu_sinks_, work_, scratch_;
  kernels::AttentionScheduleStep schedule_;
  kernels::AttentionStep step_, reference_;
  std::vector<double> host_scratch_;
  std::int64_t stride_ = 0;
  StepData data_;
};

class AttentionOnGpu : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionOnGpu, IsNearTheReference) {
  AttentionRun run(GetParam());
  for (const StepCase& step : step_cases()) {
    // Only captured steps are padded, and deterministic ones are not captured.
    if (!GetParam().deterministic || step.padded_rows == 0) run.run(step);
  }
}

std::string case_name(const AttentionCase& c) {
  return pagoda::format("H{}of{}_K{}_V{}_B{}_W{}_C{}{}_{}{}", c.heads, c.kv_heads, c.key_dim, c.value_dim, c.block_size,
                        c.window, static_cast<int>(c.softcap), c.sinks ? "_sinks" : "", tensor::name_of(c.kv),
                        c.any_dims        ? "_any_dims"
                        : c.deterministic ? "_deterministic"
                                          : "");
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionOnGpu, testing::ValuesIn(attention_cases()),
                         [](const auto& each) { return case_name(each.param); });

}  // namespace

}  // namespace pagoda::parity
