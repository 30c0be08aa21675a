#include "quant/encode.h"

#include "quant/encoders/blocks_of_32.h"
#include "quant/encoders/checkpoints.h"
#include "quant/encoders/floats.h"
#include "quant/encoders/super_blocks.h"
#include "quant/formats.h"

namespace pagoda::quant {
namespace {

/// An encoder is a function `encode(const float* values, F::Block& block, F)`.
template <class F>
concept Encodable = requires(const float* values, typename F::Block& block) {
  encode(values, block, F{});
};

template <Encodable F>
void encode_blocks(const float* values, std::int64_t cols, std::byte* row) {
  auto* block = reinterpret_cast<typename F::Block*>(row);
  for (std::int64_t i = 0; i < cols; i += F::kBlockElements) encode(values + i, *block++, F{});
}

}  // namespace

EncodeRow find_encoder(const Format& format) {
  EncodeRow found = nullptr;
  Formats::for_each([&]<class F>() {
    if constexpr (Encodable<F>) {
      if (format.name == F::kName) found = &encode_blocks<F>;
    }
  });
  return found;
}

}  // namespace pagoda::quant
