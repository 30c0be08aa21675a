#include "quant/format.h"

#include <array>

#include "quant/assemble.h"
#include "quant/formats.h"

namespace pagoda::quant {
namespace {

template <class F>
void decode_blocks(const std::byte* row, std::int64_t cols, float* out) {
  const auto* blocks = reinterpret_cast<const typename F::Block*>(row);
  for (; cols > 0; cols -= F::kBlockElements, ++blocks) {
    const int count = cols < F::kBlockElements ? static_cast<int>(cols) : F::kBlockElements;
    for (int element = 0; element < count; ++element) *out++ = F::decode(*blocks, element);
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
concept Assembled = requires(typename F::Block& block) {
  F::set_group(block, 0, 0u, 0u);
};

template <class F>
constexpr auto assemble_of() -> decltype(Format::assemble_row) {
  if constexpr (Assembled<F>) {
    return &assemble_blocks<F>;
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
                            .coding = coding_of<F>(),
                            .assemble_row = assemble_of<F>(),
                            .bits = Assembled<F> ? bits_of<F>() : 0,
                            .group = Assembled<F> ? group_of<F>() : 0};

template <class... F>
constexpr std::array<const Format*, sizeof...(F)> pointers(FormatList<F...>) {
  return {&kFormat<F>...};
}

constexpr auto kFormats = pointers(Formats{});

constexpr FormatAlias kAliases[] = {
    {"gptq4_g128", "packed4_g128"},
    {"awq4_g128", "packed4_g128"},
    {"packed8", "packed8_g128"},
    {"fp8_block128", "fp8_e4m3"},
};

}  // namespace

std::span<const Format* const> all_formats() { return kFormats; }

std::span<const FormatAlias> format_aliases() { return kAliases; }

const Format* find_format(std::string_view name) {
  for (const FormatAlias& alias : kAliases) {
    if (alias.name == name) name = alias.of;
  }
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
