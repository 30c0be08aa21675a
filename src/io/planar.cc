#include "io/planar.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "base/numbers.h"
#include "io/model_file.h"
#include "io/quoted.h"
#include "quant/assemble.h"

namespace pagoda::io {
namespace {

/// The `bits` from `bit` on (code_bits.h, at run time).
std::uint32_t bits_at(const std::uint8_t* codes, std::int64_t bit, int bits) {
  std::uint32_t word = static_cast<std::uint32_t>(codes[bit / 8]) >> (bit % 8);
  if (bit % 8 + bits > 8) word |= static_cast<std::uint32_t>(codes[bit / 8 + 1]) << (8 - bit % 8);
  return word & ((1u << bits) - 1);
}

std::uint32_t code_at(const std::uint8_t* codes, std::int64_t index, int bits) {
  return bits_at(codes, index * bits, bits);
}

/// Sets a code whose bits are zero.
void add_code(std::uint8_t* codes, std::int64_t index, int bits, std::uint32_t code) {
  const std::int64_t bit = index * bits;
  codes[bit / 8] = static_cast<std::uint8_t>(codes[bit / 8] | code << (bit % 8));
  if (bit % 8 + bits > 8) {
    codes[bit / 8 + 1] = static_cast<std::uint8_t>(codes[bit / 8 + 1] | code >> (8 - bit % 8));
  }
}

/// The lane of a 32-bit word of AWQ in which row `row` of eight lies.
int awq_lane(std::int64_t row) { return static_cast<int>((row & 1) * 4 + (row & 7) / 2); }

std::int64_t width_of(std::string_view dtype) {
  if (dtype == "F32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 1;
}

float widen(std::string_view dtype, const std::byte* at) {
  std::uint16_t half = 0;
  float value = 0;
  if (dtype == "F32") {
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::memcpy(&half, at, sizeof half);
  return dtype == "F16" ? f16_to_float(half) : bf16_to_float(half);
}

Result<std::uint32_t> word_of(const Grid& grid, const std::byte* at) {
  const auto refuse = [&](std::string_view what) {
    return fail(ErrorCode::kFormatUnsupported, "tensor {}: {}", quoted(grid.entry.name), what);
  };
  const auto byte = std::to_integer<std::uint32_t>(*at);
  switch (grid.type) {
    case WordType::kE4m3:
      if ((byte & 0x7f) == 0x7f) return refuse("holds the scale NaN of E4M3");
      return byte;
    case WordType::kSignedByte:
      return byte ^ 0x80u;
    case WordType::kE8m0:
      if (byte == 255) return refuse("holds the scale 255, which of E8M0 is no number");
      return byte;
    case WordType::kHalf: {
      std::uint16_t half = 0;
      std::memcpy(&half, at, sizeof half);
      if (!std::isfinite(widen(grid.entry.dtype, at))) return refuse("holds a scale that is not finite");
      return half;
    }
    case WordType::kFloat:
    case WordType::kShortFloat:
      break;
  }
  const float value = widen(grid.entry.dtype, at);
  if (!std::isfinite(value)) return refuse("holds a scale that is not finite");
  const std::uint32_t bits = bits_of_float(value);
  if (grid.type == WordType::kShortFloat && (bits & 0xffu) != 0) {
    return refuse("has scales of more than 16 significant bits; integers are read with scales of F16 and BF16");
  }
  return bits;
}

}  // namespace

Status read_planar(const Planar& planar, const ModelFile& file, RowRange rows, std::span<std::byte> into) {
  const std::int64_t row_bytes = planar.format->row_bytes(planar.cols);
  PAGODA_CHECK(std::ssize(into) == rows.count * row_bytes, "{} bytes for {} rows", into.size(), rows.count);
  const std::int64_t code_bytes = planar.code_bytes();
  const std::int64_t groups = planar.groups();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows.count * code_bytes));
  std::vector<std::uint32_t> scales(static_cast<std::size_t>(rows.count * groups)), offsets;
  PAGODA_TRY(planar.codes(file, rows, codes));
  PAGODA_TRY(planar.scales(file, rows, scales));
  if (planar.offsets) {
    offsets.resize(scales.size());
    PAGODA_TRY(planar.offsets(file, rows, offsets));
  }
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const auto at = static_cast<std::size_t>(row * groups);
    quant::RowParts parts{.codes = codes.data() + row * code_bytes,
                          .scales = std::span(scales).subspan(at, static_cast<std::size_t>(groups)),
                          .offsets = {},
                          .super = planar.super};
    if (!offsets.empty()) parts.offsets = std::span(offsets).subspan(at, static_cast<std::size_t>(groups));
    planar.format->assemble_row(parts, planar.cols, into.data() + row * row_bytes);
  }
  return Ok{};
}

ReadCodes row_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, int file_bits, int bits,
                    CodeOrder order) {
  return [=](const ModelFile& file, RowRange range, std::span<std::uint8_t> out) -> Status {
    const std::int64_t stride = static_cast<std::int64_t>(entry.bytes) / rows;
    const std::int64_t out_stride = (cols * bits + 7) / 8;
    std::vector<std::byte> bytes(static_cast<std::size_t>(range.count * stride));
    PAGODA_TRY(file.read_bytes(entry, static_cast<std::uint64_t>(range.first * stride), bytes));
    const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data());
    std::uint8_t* to = out.data();
    for (std::int64_t row = 0; row < range.count; ++row, from += stride, to += out_stride) {
      if (file_bits != bits) {
        std::fill_n(to, out_stride, std::uint8_t{0});
        for (std::int64_t c = 0; c < cols; ++c) add_code(to, c, bits, code_at(from, c, file_bits));
        continue;
      }
      std::memcpy(to, from, static_cast<std::size_t>(out_stride));
      if (order == CodeOrder::kPlain) continue;
      for (std::int64_t i = 0; i < out_stride; ++i) {
        to[i] = static_cast<std::uint8_t>(order == CodeOrder::kSigned ? to[i] ^ 0x80 : to[i] >> 4 | to[i] << 4);
      }
    }
    return Ok{};
  };
}

ReadCodes ordered_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, int file_bits, int bits,
                        std::vector<std::int32_t> order) {
  return [=, order = std::move(order)](const ModelFile& file, RowRange range, std::span<std::uint8_t> out) -> Status {
    const std::int64_t stride = static_cast<std::int64_t>(entry.bytes) / rows;
    const std::int64_t out_stride = (cols * bits + 7) / 8;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(range.count * stride));
    PAGODA_TRY(file.read_bytes(entry, static_cast<std::uint64_t>(range.first * stride),
                               std::as_writable_bytes(std::span(bytes))));
    std::ranges::fill(out, std::uint8_t{0});
    for (std::int64_t row = 0; row < range.count; ++row) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::uint32_t code = code_at(bytes.data() + row * stride, order[static_cast<std::size_t>(c)], file_bits);
        add_code(out.data() + row * out_stride, c, bits, code);
      }
    }
    return Ok{};
  };
}

ReadCodes gptq_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, int file_bits, int bits,
                     std::vector<std::int32_t> order) {
  return [=, order = std::move(order)](const ModelFile& file, RowRange range, std::span<std::uint8_t> out) -> Status {
    const std::int64_t words = ceil_div<std::int64_t>(cols * file_bits, 32);
    std::vector<std::uint32_t> piece(static_cast<std::size_t>(words * range.count));
    for (std::int64_t w = 0; w < words; ++w) {
      const auto line =
          std::span(piece).subspan(static_cast<std::size_t>(w * range.count), static_cast<std::size_t>(range.count));
      PAGODA_TRY(file.read_bytes(entry, static_cast<std::uint64_t>((w * rows + range.first) * 4),
                                 std::as_writable_bytes(line)));
    }
    const std::int64_t out_stride = (cols * bits + 7) / 8;
    std::vector<std::uint32_t> stream(static_cast<std::size_t>(words + 1));
    for (std::int64_t row = 0; row < range.count; ++row) {
      for (std::int64_t w = 0; w < words; ++w) {
        stream[static_cast<std::size_t>(w)] = piece[static_cast<std::size_t>(w * range.count + row)];
      }
      const auto* from = reinterpret_cast<const std::uint8_t*>(stream.data());
      std::uint8_t* to = out.data() + row * out_stride;
      if (file_bits == bits && order.empty()) {
        std::memcpy(to, from, static_cast<std::size_t>(out_stride));
        continue;
      }
      std::fill_n(to, out_stride, std::uint8_t{0});
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t source = order.empty() ? c : order[static_cast<std::size_t>(c)];
        add_code(to, c, bits, code_at(from, source, file_bits));
      }
    }
    return Ok{};
  };
}

ReadCodes awq_codes(const TensorEntry& entry, std::int64_t rows, std::int64_t cols) {
  return [=](const ModelFile& file, RowRange range, std::span<std::uint8_t> out) -> Status {
    const std::int64_t first_word = range.first / 8;
    const std::int64_t words = ceil_div<std::int64_t>(range.first + range.count, 8) - first_word;
    std::vector<std::uint32_t> piece(static_cast<std::size_t>(cols * words));
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto line = std::span(piece).subspan(static_cast<std::size_t>(c * words), static_cast<std::size_t>(words));
      PAGODA_TRY(file.read_bytes(entry, static_cast<std::uint64_t>((c * (rows / 8) + first_word) * 4),
                                 std::as_writable_bytes(line)));
    }
    const std::int64_t out_stride = (cols + 1) / 2;
    std::ranges::fill(out, std::uint8_t{0});
    for (std::int64_t i = 0; i < range.count; ++i) {
      const std::int64_t row = range.first + i;
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::uint32_t word = piece[static_cast<std::size_t>(c * words + row / 8 - first_word)];
        add_code(out.data() + i * out_stride, c, 4, word >> (4 * awq_lane(row)) & 15);
      }
    }
    return Ok{};
  };
}

ReadWords grid_words(Grid grid, int group) {
  return
      [grid = std::move(grid), group](const ModelFile& file, RowRange range, std::span<std::uint32_t> out) -> Status {
        const std::int64_t width = width_of(grid.entry.dtype);
        const std::int64_t groups = ceil_div<std::int64_t>(grid.cols, group);
        const std::int64_t grid_cols = ceil_div(grid.cols, grid.cols_each);
        const std::int64_t first = range.first / grid.rows_each;
        const std::int64_t count = ceil_div(range.first + range.count, grid.rows_each) - first;
        std::vector<std::byte> bytes(static_cast<std::size_t>(count * grid_cols * width));
        if (grid.transposed) {
          for (std::int64_t c = 0; c < grid_cols; ++c) {
            const auto line = std::span(bytes).subspan(static_cast<std::size_t>(c * count * width),
                                                       static_cast<std::size_t>(count * width));
            PAGODA_TRY(file.read_bytes(grid.entry, static_cast<std::uint64_t>((c * grid.rows + first) * width), line));
          }
        } else {
          PAGODA_TRY(file.read_bytes(grid.entry, static_cast<std::uint64_t>(first * grid_cols * width), bytes));
        }
        for (std::int64_t i = 0; i < range.count; ++i) {
          const std::int64_t row = (range.first + i) / grid.rows_each - first;
          for (std::int64_t g = 0; g < groups; ++g) {
            const std::int64_t col = g * group / grid.cols_each;
            const std::int64_t at = grid.transposed ? col * count + row : row * grid_cols + col;
            out[static_cast<std::size_t>(i * groups + g)] = PAGODA_TRY(word_of(grid, bytes.data() + at * width));
          }
        }
        return Ok{};
      };
}

ReadWords packed_zeros(PackedZeros zeros, int group) {
  return [z = std::move(zeros), group](const ModelFile& file, RowRange range, std::span<std::uint32_t> out) -> Status {
    const std::int64_t groups = ceil_div<std::int64_t>(z.cols, group);
    const std::int64_t grid_cols = ceil_div(z.cols, z.cols_each);
    const std::int64_t row_words = ceil_div<std::int64_t>(z.rows * z.bits, 32);
    const std::int64_t first = range.first * z.bits / 32;
    const std::int64_t count = ceil_div<std::int64_t>((range.first + range.count) * z.bits, 32) - first;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(grid_cols * count));  // (groups of the file, words)
    if (z.by_words) {
      std::vector<std::uint32_t> lines(words.size());
      PAGODA_TRY(file.read_bytes(z.entry, static_cast<std::uint64_t>(first * grid_cols * 4),
                                 std::as_writable_bytes(std::span(lines))));
      for (std::int64_t w = 0; w < count; ++w) {
        for (std::int64_t c = 0; c < grid_cols; ++c) {
          words[static_cast<std::size_t>(c * count + w)] = lines[static_cast<std::size_t>(w * grid_cols + c)];
        }
      }
    } else {
      for (std::int64_t c = 0; c < grid_cols; ++c) {
        const auto line =
            std::span(words).subspan(static_cast<std::size_t>(c * count), static_cast<std::size_t>(count));
        PAGODA_TRY(file.read_bytes(z.entry, static_cast<std::uint64_t>((c * row_words + first) * 4),
                                   std::as_writable_bytes(line)));
      }
    }
    for (std::int64_t i = 0; i < range.count; ++i) {
      const std::int64_t row = range.first + i;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t col = g * group / z.cols_each;
        const auto* line = reinterpret_cast<const std::uint8_t*>(words.data() + col * count);
        const std::int64_t lane = z.lanes ? row / 8 * 8 + awq_lane(row) : row;
        const std::uint32_t code = bits_at(line, lane * z.bits - first * 32, z.bits);
        out[static_cast<std::size_t>(i * groups + g)] = (code + z.plus) & ((1u << z.bits) - 1);
      }
    }
    return Ok{};
  };
}

ReadWords flat_words(const TensorEntry& entry, std::int64_t cols, std::int64_t block, Nested nested) {
  constexpr std::int64_t kGroup = 64;
  return [=, nested = std::move(nested)](const ModelFile& file, RowRange range,
                                         std::span<std::uint32_t> out) -> Status {
    const bool folded = !nested.table.empty();
    const std::int64_t width = folded ? 1 : 4;
    const std::int64_t first = range.first * cols / block;
    const std::int64_t count = ceil_div((range.first + range.count) * cols, block) - first;
    std::vector<std::byte> bytes(static_cast<std::size_t>(count * width));
    PAGODA_TRY(file.read_bytes(entry, static_cast<std::uint64_t>(first * width), bytes));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = (range.first * cols + static_cast<std::int64_t>(i) * kGroup) / block;
      float value = 0;
      if (folded) {
        const auto code = std::to_integer<std::size_t>(bytes[static_cast<std::size_t>(at - first)]);
        value = nested.table[code] * nested.absmax[static_cast<std::size_t>(at / nested.block)] + nested.offset;
      } else {
        std::memcpy(&value, bytes.data() + (at - first) * width, sizeof value);
      }
      if (!std::isfinite(value)) {
        return fail(ErrorCode::kFormatUnsupported, "tensor {}: holds a scale that is not finite", quoted(entry.name));
      }
      out[i] = bits_of_float(value);
    }
    return Ok{};
  };
}

ReadWords constant_words(std::uint32_t word) {
  return [word](const ModelFile&, RowRange, std::span<std::uint32_t> out) -> Status {
    std::ranges::fill(out, word);
    return Ok{};
  };
}

}  // namespace pagoda::io
