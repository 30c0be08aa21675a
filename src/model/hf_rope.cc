#include "model/hf_rope.h"

#include <cmath>

namespace pagoda::model {
namespace {

constexpr double kLeastTheta = 1.001;  // its logarithm is divided by
constexpr double kMaxTheta = 1e12;
constexpr double kLeastFactor = 1e-3;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxLength = 1e12;

/// Reads the keys of one object.
class RopeReader {
 public:
  RopeReader(const ConfigReader& config, const HfRopeKeys& keys, std::int64_t head_dim, std::int64_t context)
      : config_(config), keys_(keys), context_(context) {
    rope_.spec.head_dim = rope_.spec.rotary_dim = head_dim;
    rope_.context = context;
  }

  Result<HfRope> read() {
    PAGODA_TRY(read_theta());
    PAGODA_TRY(read_whole_heads());
    const std::string_view type = PAGODA_TRY(this->type());
    if (type == "linear") {
      PAGODA_TRY(read_linear());
    } else if (type == "dynamic") {
      // Up to the length that the model was made for it is the default kind; beyond, it depends on the length.
      PAGODA_TRY(number("factor", kLeastFactor, kMaxFactor));
    } else if (type == "llama3") {
      PAGODA_TRY(read_llama3());
    } else if (type == "yarn") {
      PAGODA_TRY(read_yarn());
    } else if (type == "longrope") {
      PAGODA_TRY(read_longrope());
    } else if (type != "default") {
      return fail(ErrorCode::kConfigRange,
                  "{}: {} is \"{}\"; Pagoda knows default, linear, dynamic, llama3, yarn and longrope",
                  config_.source(), key("rope_type"), type);
    }
    return std::move(rope_);
  }

 private:
  std::string key(std::string_view name) const { return keys_.object + "." + std::string(name); }
  bool has(std::string_view name) const { return !keys_.object.empty() && config_.contains(key(name)); }
  Result<double> number(std::string_view name, double least, double most) const {
    return config_.number(key(name), least, most);
  }
  Result<double> number_or(std::string_view name, double fallback, double least, double most) const {
    return has(name) ? number(name, least, most) : Result<double>(fallback);
  }

  /// A value that may stand in the object or outside of it, and if in both, as the same.
  Result<double> inner_or_outer(std::string_view name, const std::string& outer, double fallback, double least,
                                double most) const {
    if (outer.empty() || !config_.contains(outer)) return number_or(name, fallback, least, most);
    const double value = PAGODA_TRY(config_.number(outer, least, most));
    const double inner = PAGODA_TRY(number_or(name, value, least, most));
    if (inner == value) return value;
    return fail(ErrorCode::kConfigRange, "{}: {} is {}, but {} is {}; they must be equal", config_.source(), key(name),
                inner, config_.full(outer), value);
  }

  Status read_theta() {
    rope_.spec.theta =
        PAGODA_TRY(inner_or_outer("rope_theta", keys_.outer_theta, keys_.default_theta, kLeastTheta, kMaxTheta));
    return Ok{};
  }

  /// The families at hand rotate whole heads whatever the kind.
  Status read_whole_heads() {
    if (rope_.spec.head_dim % 2 != 0) {
      return fail(ErrorCode::kConfigRange,
                  "{}: heads have {} elements, which cannot be paired; an even number is wanted", config_.source(),
                  rope_.spec.head_dim);
    }
    const double part = PAGODA_TRY(inner_or_outer("partial_rotary_factor", "partial_rotary_factor", 1, 0, 1));
    if (part == 1) return Ok{};
    return fail(ErrorCode::kConfigRange, "{}: partial_rotary_factor is {}; this family rotates whole heads, 1",
                config_.source(), part);
  }

  Result<std::string_view> type() const {
    const std::string_view rope_type = has("rope_type") ? PAGODA_TRY(config_.text_or(key("rope_type"), "")) : "";
    const std::string_view legacy = has("type") ? PAGODA_TRY(config_.text_or(key("type"), "")) : "";
    if (!rope_type.empty() && !legacy.empty() && rope_type != legacy) {
      return fail(ErrorCode::kConfigRange, "{}: {} is \"{}\", but {} is \"{}\"; they must be equal", config_.source(),
                  key("rope_type"), rope_type, key("type"), legacy);
    }
    if (!rope_type.empty()) return rope_type;
    return legacy.empty() ? std::string_view("default") : legacy;
  }

  Result<double> original_context() const {
    return inner_or_outer("original_max_position_embeddings", "original_max_position_embeddings",
                          static_cast<double>(context_), 1, kMaxLength);
  }

  /// How much longer the context was made; its ratio if it is not said.
  Result<double> factor_or_ratio(double original) const {
    return number_or("factor", static_cast<double>(context_) / original, kLeastFactor, kMaxFactor);
  }

  Status read_linear() {
    rope_.spec.kind = kernels::RopeKind::kLinear;
    rope_.spec.factor = PAGODA_TRY(number("factor", kLeastFactor, kMaxFactor));
    return Ok{};
  }

  Status read_llama3() {
    kernels::RopeSpec& spec = rope_.spec;
    spec.kind = kernels::RopeKind::kLlama3;
    spec.factor = PAGODA_TRY(number("factor", kLeastFactor, kMaxFactor));
    spec.low_freq_factor = PAGODA_TRY(number("low_freq_factor", kLeastFactor, kMaxFactor));
    spec.high_freq_factor = PAGODA_TRY(number("high_freq_factor", kLeastFactor, kMaxFactor));
    spec.original_context = PAGODA_TRY(original_context());
    if (spec.high_freq_factor > spec.low_freq_factor) return Ok{};
    return fail(ErrorCode::kConfigRange, "{}: {} is {}, not over {}, which is {}", config_.source(),
                key("high_freq_factor"), spec.high_freq_factor, key("low_freq_factor"), spec.low_freq_factor);
  }

  Status read_yarn() {
    kernels::RopeSpec& spec = rope_.spec;
    spec.kind = kernels::RopeKind::kYarn;
    spec.original_context = PAGODA_TRY(original_context());
    spec.factor = PAGODA_TRY(factor_or_ratio(spec.original_context));
    spec.beta_fast = PAGODA_TRY(number_or("beta_fast", 32, 0, kMaxFactor));
    spec.beta_slow = PAGODA_TRY(number_or("beta_slow", 1, 0, kMaxFactor));
    if (spec.beta_fast == 0) spec.beta_fast = 32;  // 0 stands for the default there
    if (spec.beta_slow == 0) spec.beta_slow = 1;
    if (spec.beta_slow >= spec.beta_fast) {
      return fail(ErrorCode::kConfigRange, "{}: {} is {}, not below {}, which is {}", config_.source(),
                  key("beta_slow"), spec.beta_slow, key("beta_fast"), spec.beta_fast);
    }
    if (has("truncate")) spec.truncate = PAGODA_TRY(config_.boolean_or(key("truncate"), true));
    spec.mscale = PAGODA_TRY(number_or("mscale", 0, 0, kMaxFactor));
    spec.mscale_all_dim = PAGODA_TRY(number_or("mscale_all_dim", 0, 0, kMaxFactor));
    if (has("attention_factor")) {
      spec.attention_factor = PAGODA_TRY(number("attention_factor", kLeastFactor, kMaxFactor));
    }
    return Ok{};
  }

  /// One factor for each pair.
  Result<std::vector<double>> pair_factors(std::string_view name) const {
    if (!has(name)) {
      return fail(ErrorCode::kConfigMissing, "{}: key {} is missing", config_.source(), key(name));
    }
    std::vector<double> factors = PAGODA_TRY(config_.numbers(key(name), kLeastFactor, kMaxFactor));
    const std::int64_t pairs = rope_.spec.rotary_dim / 2;
    if (std::ssize(factors) == pairs) return factors;
    return fail(ErrorCode::kConfigRange, "{}: {} holds {} numbers for {} pairs", config_.source(), key(name),
                factors.size(), pairs);
  }

  Status read_longrope() {
    kernels::RopeSpec& spec = rope_.spec;
    spec.kind = kernels::RopeKind::kLongrope;
    PAGODA_TRY(pair_factors("long_factor"));  // of sequences longer than what is served
    spec.pair_factors = PAGODA_TRY(pair_factors("short_factor"));
    const double original = PAGODA_TRY(original_context());
    const double factor = PAGODA_TRY(factor_or_ratio(original));
    const double derived = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
    spec.attention_factor = PAGODA_TRY(number_or("attention_factor", derived, kLeastFactor, kMaxFactor));
    rope_.context = std::min(context_, static_cast<std::int64_t>(original));
    return Ok{};
  }

  const ConfigReader& config_;
  const HfRopeKeys& keys_;
  std::int64_t context_;
  HfRope rope_;
};

}  // namespace

Result<HfRopeKeys> find_hf_rope(const ConfigReader& config) {
  const bool scaling = config.contains_object("rope_scaling");
  const bool parameters = config.contains_object("rope_parameters");
  if (scaling && parameters) {
    return fail(ErrorCode::kConfigRange, "{}: has both rope_parameters and rope_scaling; one of them is wanted",
                config.source());
  }
  return HfRopeKeys{.object = scaling      ? "rope_scaling"
                              : parameters ? "rope_parameters"
                                           : "",
                    .outer_theta = "rope_theta"};
}

Result<HfRope> read_hf_rope(const ConfigReader& config, const HfRopeKeys& keys, std::int64_t head_dim,
                            std::int64_t context) {
  return RopeReader(config, keys, head_dim, context).read();
}

}  // namespace pagoda::model
