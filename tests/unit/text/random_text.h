// Random Unicode strings, the same in every run.
#pragma once

#include <random>
#include <string>

#include "base/utf8.h"

namespace pagoda::text {

/// Up to `most` characters of all lengths and many kinds: spaces, letters, marks, digits, emoji, controls.
inline std::string random_text(std::mt19937& random, int most) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x20, 0x7E},     {0x20, 0x7E},     {0x61, 0x66},       {0x20, 0x20},       {0x00, 0x1F},
      {0x80, 0x24F},    {0x300, 0x36F},   {0x370, 0x7FF},     {0x900, 0x97F},     {0x2000, 0x206F},
      {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0x1F300, 0x1FAFF}, {0x10000, 0x10FFFF}};
  const auto up_to = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  std::string out;
  for (auto left = up_to(static_cast<std::size_t>(most) + 1); left > 0; --left) {
    const auto& [low, high] = kRanges[up_to(std::size(kRanges))];
    append_utf8(out, low + static_cast<char32_t>(up_to(high - low + 1)));
  }
  return out;
}

}  // namespace pagoda::text
