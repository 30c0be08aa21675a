// Philox-4x32-10: random bits as a pure function of a key and a counter, so that a draw depends on nothing but its
// name. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include "base/shared.h"

namespace pagoda::kernels {

struct PhiloxBlock {
  std::uint32_t word[4];
};

PAGODA_SHARED PhiloxBlock philox(PhiloxBlock counter, std::uint64_t key) {
  std::uint32_t key0 = static_cast<std::uint32_t>(key);
  std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// 2^64 times the number in [0, 1), a multiple of 2^-53, that draws the token at `position` of a sequence's choice.
/// Neither the batch nor a preemption has a part in it.
PAGODA_SHARED std::uint64_t draw_word(std::uint64_t seed, std::uint32_t choice, std::int64_t position) {
  const auto at = static_cast<std::uint64_t>(position);
  const PhiloxBlock bits =
      philox({{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), choice, 0}}, seed);
  const std::uint64_t joined = (static_cast<std::uint64_t>(bits.word[1]) << 32) | bits.word[0];
  return joined >> 11 << 11;
}

/// That number.
PAGODA_SHARED double draw_number(std::uint64_t seed, std::uint32_t choice, std::int64_t position) {
  return static_cast<double>(draw_word(seed, choice, position) >> 11) * 0x1p-53;
}

}  // namespace pagoda::kernels
