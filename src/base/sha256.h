#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

using Sha256 = std::array<std::byte, 32>;

Sha256 sha256(std::span<const std::byte> bytes);
Sha256 sha256(std::string_view text);
std::string to_hex(const Sha256& digest);

}  // namespace pagoda
