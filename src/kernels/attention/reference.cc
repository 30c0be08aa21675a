#include "kernels/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pagoda::kernels {
namespace {

struct ReferenceParams {
  AttentionArgs args;
  const float* sinks;  // null: none
  KvLayout layout;
  std::int64_t num_heads, window, max_context;
  double scale, softcap;
};

const double* page_of(const ReferenceParams& p, std::int64_t row, std::int64_t key) {
  const GroupInputs& group = p.args.group;
  const std::int64_t block = group.block_tables[row * group.max_blocks + key / p.layout.block_size];
  return reinterpret_cast<const double*>(p.args.pages.data + block * p.args.pages.block_stride);
}

double score(const ReferenceParams& p, const double* query, const double* page, std::int64_t kv_head,
             std::int64_t slot) {
  double dot = 0;
  const double* key = page + p.layout.key_offset(kv_head, slot, 0);
  for (std::int64_t dim = 0; dim < p.layout.key_dim; ++dim) dot += query[dim] * key[dim * p.layout.group()];
  const double scaled = dot * p.scale;
  return p.softcap > 0 ? p.softcap * std::tanh(scaled / p.softcap) : scaled;
}

/// One token and head; `weights` has room for every key.
void attend(const ReferenceParams& p, std::int64_t row, std::int64_t token, std::int64_t head, double* weights) {
  const std::int64_t key = p.args.step.row_starts[row] + token - p.args.step.row_offsets[row];
  const std::int64_t first = p.window > 0 ? std::max<std::int64_t>(0, key - p.window + 1) : 0;
  const std::int64_t kv_head = head / (p.num_heads / p.layout.kv_heads);
  const double* query = p.args.query.row<double>(token) + head * p.layout.key_dim;
  double maximum = p.sinks != nullptr ? p.sinks[head] : -std::numeric_limits<double>::infinity();
  for (std::int64_t j = first; j <= key; ++j) {
    weights[j - first] = score(p, query, page_of(p, row, j), kv_head, j % p.layout.block_size);
    maximum = std::max(maximum, weights[j - first]);
  }
  double* out = p.args.output.row<double>(token) + head * p.layout.value_dim;
  std::fill(out, out + p.layout.value_dim, 0.0);
  double denominator = p.sinks != nullptr ? std::exp(p.sinks[head] - maximum) : 0;
  for (std::int64_t j = first; j <= key; ++j) {
    const double weight = std::exp(weights[j - first] - maximum);
    const double* value = page_of(p, row, j) + p.layout.value_offset(kv_head, j % p.layout.block_size, 0);
    denominator += weight;
    for (std::int64_t dim = 0; dim < p.layout.value_dim; ++dim) out[dim] += weight * value[dim];
  }
  for (std::int64_t dim = 0; dim < p.layout.value_dim; ++dim) out[dim] /= denominator;
}

/// Units are (token, head).
void attention_reference(const ReferenceParams& p, device::HostRange range) {
  auto* weights = reinterpret_cast<double*>(p.args.scratch) + range.worker * p.max_context;
  const StepInputs& step = p.args.step;
  for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
    const std::int64_t token = unit / p.num_heads;
    const std::int64_t head = unit % p.num_heads;
    if (token >= step.row_offsets[step.num_rows]) {
      double* out = p.args.output.row<double>(token) + head * p.layout.value_dim;
      std::fill(out, out + p.layout.value_dim, 0.0);
      continue;
    }
    std::int64_t row = 0;
    while (step.row_offsets[row + 1] <= token) ++row;
    attend(p, row, token, head, weights);
  }
}

}  // namespace

std::size_t attention_reference_scratch(const AttentionProblem& problem, const device::DeviceCaps&) {
  return static_cast<std::size_t>(problem.workers * problem.max_context) * sizeof(double);
}

Result<AttentionStep> prepare_attention_reference(const AttentionProblem& problem, const AttentionWeights& weights,
                                                  device::Device&) {
  return AttentionStep([problem, weights](const AttentionArgs& args, device::Stream& stream) {
    const ReferenceParams params{.args = args,
                                 .sinks = problem.sinks ? weights.sinks : nullptr,
                                 .layout = problem.layout,
                                 .num_heads = problem.num_heads,
                                 .window = problem.window,
                                 .max_context = problem.max_context,
                                 .scale = problem.scale,
                                 .softcap = problem.softcap};
    device::host(stream).launch(attention_reference, params, args.step.num_tokens * problem.num_heads);
  });
}

}  // namespace pagoda::kernels
