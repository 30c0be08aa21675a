#include "quant/format.h"

#include <array>

#include "quant/formats.h"

namespace pagoda::quant {
namespace {

template <class F>
void decode_blocks(const std::byte* row, std::int64_t cols, float* out) {
  const auto* blocks = reinterpret_cast<const typename F::Block*>(row);
  for (std::int64_t block = 0; block < cols / F::kBlockElements; ++block) {
    for (int element = 0; element < F::kBlockElements; ++element) *out++ = F::decode(blocks[block], element);
  }
}

template <class F>
constexpr const Coding* coding_of() {
  if constexpr (requires { F::kCoding; }) {
    return &F::kCoding;
  } else {
    return nullptr;
  }
}

template <class F>
constexpr Format kFormat = {.name = F::kName,
                            .gguf_type = F::kGgufType,
                            .block_elements = F::kBlockElements,
                            .block_bytes = sizeof(typename F::Block),
                            .decode_row = &decode_blocks<F>,
                            .coding = coding_of<F>()};

template <class... F>
constexpr std::array<const Format*, sizeof...(F)> pointers(FormatList<F...>) {
  return {&kFormat<F>...};
}

constexpr auto kFormats = pointers(Formats{});

}  // namespace

std::span<const Format* const> all_formats() { return kFormats; }

const Format* find_format(std::string_view name) {
  for (const Format* format : kFormats) {
    if (format->name == name) return format;
  }
  return nullptr;
}

const Format* find_gguf_type(std::int32_t type) {
  for (const Format* format : kFormats) {
    if (type >= 0 && format->gguf_type == type) return format;
  }
  return nullptr;
}

}  // namespace pagoda::quant
