// Each head of a token: RMS norm if asked for, then pairs (a, b) become (a cos - b sin, b cos + a sin), every product
// rounded before the sum. cos and sin of the token's position are made in double precision from RopeTable's two rows
// (four products a pair) and rounded to float once; all heads share them.
// A unit is a token, a lane an element (interleaved pairs) or the same half of 16 pairs (half-split). Reads and writes
// 4 bytes an element once or twice, in the first-level cache. Chosen on every CPU.
#pragma once

#include "kernels/cpu/lanes_norm.h"
#include "kernels/qkv_postprocess/cpu_params.h"

namespace pagoda::kernels {
namespace {

constexpr std::int64_t kRopeChunk = 128;  // pairs whose rotation is held at a time

struct RopeChunk {
  std::int64_t first, count;      // pairs
  float cosines[2 * kRopeChunk];  // interleaved: one an element, else one a pair
  float sines[2 * kRopeChunk];
};

inline void fill_chunk(const QkvPostprocessParams& p, std::int64_t position, RopeChunk& chunk) {
  const double* low = p.rope_low + position % p.rope_step * 2 * p.num_pairs + chunk.first;
  const double* high = p.rope_high + position / p.rope_step * 2 * p.num_pairs + chunk.first;
  const std::int64_t n = p.num_pairs;
  float cosines[kRopeChunk];
  float sines[kRopeChunk];
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    cosines[i] = static_cast<float>(high[i] * low[i] - high[n + i] * low[n + i]);
    sines[i] = static_cast<float>(high[n + i] * low[i] + high[i] * low[n + i]);
  }
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    if (p.interleaved) {
      chunk.cosines[2 * i] = chunk.cosines[2 * i + 1] = cosines[i];
      chunk.sines[2 * i] = -sines[i];
      chunk.sines[2 * i + 1] = sines[i];
    } else {
      chunk.cosines[i] = cosines[i];
      chunk.sines[i] = sines[i];
    }
  }
}

inline void rotate_neighbours(float* x, const RopeChunk& chunk) {
  x += 2 * chunk.first;
  for (std::int64_t i = 0; i < 2 * chunk.count; i += 16) {
    const std::int64_t left = 2 * chunk.count - i;
    const Lanes v = load_first(x + i, left);
    const Lanes turned = mul(swap_pairs(v), load_first(chunk.sines + i, left));
    store_first(x + i, add(mul(v, load_first(chunk.cosines + i, left)), turned), left);
  }
}

inline void rotate_halves(float* x, std::int64_t distance, const RopeChunk& chunk) {
  x += chunk.first;
  for (std::int64_t i = 0; i < chunk.count; i += 16) {
    const std::int64_t left = chunk.count - i;
    const Lanes a = load_first(x + i, left);
    const Lanes b = load_first(x + distance + i, left);
    const Lanes cosine = load_first(chunk.cosines + i, left);
    const Lanes sine = load_first(chunk.sines + i, left);
    store_first(x + i, sub(mul(a, cosine), mul(b, sine)), left);
    store_first(x + distance + i, add(mul(b, cosine), mul(a, sine)), left);
  }
}

inline void norm_heads(float* x, std::int64_t heads, std::int64_t dim, const float* weight,
                       const QkvPostprocessParams& p) {
  for (std::int64_t head = 0; head < heads; ++head, x += dim) {
    const Lanes inverse = inverse_rms(x, dim, p.epsilon);
    for (std::int64_t i = 0; i < dim; i += 16) {
      const std::int64_t left = dim - i;
      Lanes v = mul(load_first(x + i, left), inverse);
      if (weight != nullptr) v = mul(v, add(load_first(weight + i, left), broadcast(p.weight_shift)));
      store_first(x + i, v, left);
    }
  }
}

inline void rotate_heads(float* x, std::int64_t heads, const QkvPostprocessParams& p, const RopeChunk& chunk) {
  for (std::int64_t head = 0; head < heads; ++head, x += p.key_dim) {
    if (p.interleaved) {
      rotate_neighbours(x, chunk);
    } else {
      rotate_halves(x, p.pair_distance, chunk);
    }
  }
}

inline void qkv_postprocess_tokens(const QkvPostprocessParams& p, device::HostRange range) {
  for (std::int64_t token = range.begin; token < range.end; ++token) {
    float* query = p.query + token * p.query_stride;
    float* key = p.key + token * p.key_stride;
    if (p.query_norm != nullptr) {
      norm_heads(query, p.num_heads, p.key_dim, p.query_norm, p);
      norm_heads(key, p.num_kv_heads, p.key_dim, p.key_norm, p);
    }
    if (p.value_norm) norm_heads(p.value + token * p.value_stride, p.num_kv_heads, p.value_dim, nullptr, p);
    for (std::int64_t first = 0; first < p.num_pairs; first += kRopeChunk) {
      RopeChunk chunk;
      chunk.first = first;
      chunk.count = p.num_pairs - first < kRopeChunk ? p.num_pairs - first : kRopeChunk;
      fill_chunk(p, p.positions[token], chunk);
      rotate_heads(query, p.num_heads, p, chunk);
      rotate_heads(key, p.num_kv_heads, p, chunk);
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
