#include <cmath>

#include "kernels/cpu/row_pieces.h"
#include "kernels/qkv_postprocess/reference.h"

namespace pagoda::kernels {
namespace {

struct ReferenceParams {
  QkvPostprocessArgs args;
  const float* query_norm;
  const float* key_norm;
  const RopeTable* rope;  // null: no rotation
  std::int64_t num_heads, num_kv_heads, key_dim, value_dim;
  double epsilon, weight_shift;
  bool value_norm;
};

void norm_head(double* x, std::int64_t dim, const float* weight, const ReferenceParams& p) {
  double squares = 0;
  for (std::int64_t i = 0; i < dim; ++i) squares += x[i] * x[i];
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(dim) + p.epsilon);
  for (std::int64_t i = 0; i < dim; ++i) x[i] *= weight != nullptr ? inverse * (weight[i] + p.weight_shift) : inverse;
}

void rotate_head(double* x, std::int64_t position, const RopeTable& table) {
  const RopeSpec& spec = table.spec();
  const bool neighbours = spec.pairing == RopePairing::kInterleaved;
  for (std::int64_t pair = 0; pair < table.num_pairs(); ++pair) {
    const auto [cosine, sine] = table.at(position, pair);
    double& a = neighbours ? x[2 * pair] : x[pair];
    double& b = neighbours ? x[2 * pair + 1] : x[pair + spec.pairing_dim() / 2];
    const double turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
  }
}

void process_heads(double* x, std::int64_t heads, std::int64_t position, const float* norm, const ReferenceParams& p) {
  for (std::int64_t head = 0; head < heads; ++head, x += p.key_dim) {
    if (norm != nullptr) norm_head(x, p.key_dim, norm, p);
    if (p.rope != nullptr) rotate_head(x, position, *p.rope);
  }
}

void qkv_postprocess_reference(const ReferenceParams& p, device::HostRange range) {
  for (std::int64_t token = range.begin; token < range.end; ++token) {
    const std::int64_t position = p.args.positions[token];
    process_heads(p.args.query.row<double>(token), p.num_heads, position, p.query_norm, p);
    process_heads(p.args.key.row<double>(token), p.num_kv_heads, position, p.key_norm, p);
    double* value = p.args.value.row<double>(token);
    for (std::int64_t head = 0; p.value_norm && head < p.num_kv_heads; ++head) {
      norm_head(value + head * p.value_dim, p.value_dim, nullptr, p);
    }
  }
}

}  // namespace

Result<QkvPostprocessStep> prepare_qkv_postprocess_reference(const QkvPostprocessProblem& problem,
                                                             const QkvPostprocessWeights& weights, device::Device&) {
  return QkvPostprocessStep([problem, weights](const QkvPostprocessArgs& args, device::Stream& stream) {
    const bool norm = problem.norm != QkvNorm::kNone;
    const ReferenceParams params{.args = args,
                                 .query_norm = norm ? weights.query_norm : nullptr,
                                 .key_norm = norm ? weights.key_norm : nullptr,
                                 .rope = problem.rope.kind == RopeKind::kNone ? nullptr : weights.rope.get(),
                                 .num_heads = problem.num_heads,
                                 .num_kv_heads = problem.num_kv_heads,
                                 .key_dim = problem.key_dim,
                                 .value_dim = problem.value_dim,
                                 .epsilon = problem.epsilon,
                                 .weight_shift = problem.weight_shift,
                                 .value_norm = problem.norm == QkvNorm::kAll};
    device::host(stream).launch(qkv_postprocess_reference, params, args.query.rows,
                                rows_per_piece(8 * problem.num_heads * problem.key_dim));
  });
}

}  // namespace pagoda::kernels
