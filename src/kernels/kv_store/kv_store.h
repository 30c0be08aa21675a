// Writes each token's keys and values into its slot of the cache pages, rounded once (to nearest, ties to even).
// A write slot of -1 writes nothing.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/candidate.h"
#include "kernels/kv_store/kv_layout.h"
#include "tensor/tensor.h"

namespace pagoda::kernels {

struct KvStoreProblem {
  tensor::DType activation = tensor::DType::kF32;
  KvLayout layout;
};

struct KvStoreWeights {};

struct KvStoreArgs {
  tensor::MatrixView key;                     ///< (tokens, kv_heads · key_dim)
  tensor::MatrixView value;                   ///< (tokens, kv_heads · value_dim)
  const std::int64_t* write_slots = nullptr;  ///< (tokens)
  KvPages pages;
};

using KvStoreStep = Step<KvStoreArgs>;
using KvStoreKernel = Candidate<KvStoreProblem, KvStoreWeights, KvStoreArgs>;

std::span<const KvStoreKernel> kv_store_kernels();

}  // namespace pagoda::kernels
