// Every format against blocks that the reference reader, or the format's formula in numpy, decoded
// (tools/make_quant_goldens.py), bit for bit.
#include "quant/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "fixtures/quant_golden.h"
#include "quant/assemble.h"
#include "quant/format.h"

namespace pagoda::quant {
namespace {

using fixtures::first_difference;

std::vector<float> decode(const Format& format, const std::vector<std::byte>& blocks, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(cols));
  format.decode_row(blocks.data(), cols, values.data());
  return values;
}

TEST(Formats, DecodeLikeTheReferenceBitForBit) {
  int compared = 0;
  for (const Format* format : all_formats()) {
    if (format->name == "f32") continue;  // its bytes are its values
    const auto golden = fixtures::read_quant_golden(*format);
    ASSERT_GT(golden.num_blocks, 10) << "no golden file for " << format->name;
    const auto values = decode(*format, golden.blocks, golden.num_blocks * format->block_elements);
    const std::int64_t at = first_difference(values, golden.bits);
    EXPECT_EQ(at, -1) << format->name << ": block " << at / format->block_elements << " element "
                      << at % format->block_elements << " is " << values[static_cast<std::size_t>(at)];
    ++compared;
  }
  EXPECT_EQ(compared, Formats::kCount - 1);
}

// Each single bit of a block matters: the comparison above would see any bit that decode misreads.
TEST(Formats, GoldenComparisonSeesEveryBitOfABlock) {
  for (const Format* format : all_formats()) {
    if (format->name == "f32") continue;
    const auto golden = fixtures::read_quant_golden(*format);
    std::set<std::size_t> blind;
    for (std::size_t bit = 0; bit < static_cast<std::size_t>(format->block_bytes) * 8; ++bit) blind.insert(bit);
    for (std::int64_t block = 0; block < golden.num_blocks && !blind.empty(); ++block) {
      const auto* begin = golden.blocks.data() + block * format->block_bytes;
      const std::vector<std::byte> intact(begin, begin + format->block_bytes);
      const auto* bits = golden.bits.data() + block * format->block_elements;
      const std::vector<std::uint32_t> wanted(bits, bits + format->block_elements);
      std::erase_if(blind, [&](std::size_t bit) {
        auto broken = intact;
        broken[bit / 8] ^= std::byte{1} << (bit % 8);
        return first_difference(decode(*format, broken, format->block_elements), wanted) >= 0;
      });
    }
    EXPECT_TRUE(blind.empty()) << format->name << ": nothing changes with bit " << *blind.begin();
  }
}

// CASES G3: element j is the low nibble of byte j, element j + 16 the high one; never neighbours in one byte.
TEST(Formats, NibblesOfHalvesNotOfNeighbours) {
  const auto swapped = [](std::vector<std::byte> block, std::size_t codes) {  // the same codes as neighbours
    std::vector<int> code(32);
    for (std::size_t i = 0; i < 16; ++i) {
      code[i] = std::to_integer<int>(block[codes + i] & std::byte{15});
      code[i + 16] = std::to_integer<int>(block[codes + i] >> 4);
    }
    for (std::size_t i = 0; i < 16; ++i) block[codes + i] = static_cast<std::byte>(code[2 * i] | code[2 * i + 1] << 4);
    return block;
  };
  for (const char* name : {"q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4"}) {
    const Format& format = *find_format(name);
    const auto golden = fixtures::read_quant_golden(format);
    const auto codes = static_cast<std::size_t>(format.block_bytes - 16);
    const std::int64_t last = golden.num_blocks - 1;  // its scale is a random finite number
    const auto* begin = golden.blocks.data() + last * format.block_bytes;
    const std::vector<std::byte> block(begin, begin + format.block_bytes);
    const auto* bits = golden.bits.data() + last * format.block_elements;
    const std::vector<std::uint32_t> wanted(bits, bits + format.block_elements);
    EXPECT_EQ(first_difference(decode(format, block, 32), wanted), -1) << name;
    EXPECT_GE(first_difference(decode(format, swapped(block, codes), 32), wanted), 0)
        << name << ": the test cannot tell a swapped order";
  }
}

TEST(Formats, NibbleOrderOfDistinctCodes) {
  Q4_0::Block block{.scale = 0x3c00, .codes = {}};  // scale 1
  for (int i = 0; i < 16; ++i) block.codes[i] = static_cast<std::uint8_t>(i | (15 - i) << 4);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(Q4_0::decode(block, i), static_cast<float>(i - 8));
    EXPECT_EQ(Q4_0::decode(block, i + 16), static_cast<float>(7 - i));
  }
}

// CASES G4: the ends of E8M0. The reference gives 255 a value; refusing it is the loader's business.
TEST(Formats, Mxfp4ScaleBytes) {
  MXFP4::Block block{.exponent = 0, .codes = {0x2a}};  // element 0: code 10, -1; element 16: code 2, 1
  const auto at = [&](std::uint8_t exponent) {
    block.exponent = exponent;
    return MXFP4::decode(block, 16);
  };
  EXPECT_EQ(at(0), 0x1p-127f);
  EXPECT_EQ(at(1), 0x1p-126f);
  EXPECT_EQ(at(125), 0.25f);
  EXPECT_EQ(at(127), 1.0f);
  EXPECT_EQ(at(254), 0x1p127f);
  EXPECT_EQ(MXFP4::decode(block, 0), -0x1p127f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(MXFP4::decode(block, 1)), 0u) << "zero has no sign";
}

// The last block of a row may be used in part: nothing behind the row's last element is written.
TEST(Formats, RaggedRowsEndWhereTheyEnd) {
  for (const Format* format : all_formats()) {
    if (format->gguf_type >= 0) continue;
    const auto golden = fixtures::read_quant_golden(*format);
    const auto whole = decode(*format, golden.blocks, 3 * format->block_elements);
    for (const std::int64_t cols : {std::int64_t{1}, format->block_elements - 1, 2 * format->block_elements + 7}) {
      std::vector<float> values(static_cast<std::size_t>(cols + 1), 1234.5f);
      format->decode_row(golden.blocks.data(), cols, values.data());
      EXPECT_EQ(values.back(), 1234.5f) << format->name << " " << cols;
      EXPECT_EQ(std::memcmp(values.data(), whole.data(), static_cast<std::size_t>(cols) * sizeof(float)), 0)
          << format->name << " " << cols;
    }
  }
}

TEST(Formats, CodesOfFewBitsAreWrittenAndReadAlike) {
  const auto check = [](auto bits) {
    constexpr int kBits = decltype(bits)::value;
    std::uint8_t codes[32 * kBits / 8] = {};
    for (int i = 31; i >= 0; --i) add_code<kBits>(codes, i, (i * 37 + 11) & ((1 << kBits) - 1));
    for (int i = 0; i < 32; ++i) ASSERT_EQ(code_at<kBits>(codes, i), (i * 37 + 11) & ((1 << kBits) - 1)) << kBits;
  };
  check(std::integral_constant<int, 2>());
  check(std::integral_constant<int, 3>());
  check(std::integral_constant<int, 4>());
  check(std::integral_constant<int, 5>());
  check(std::integral_constant<int, 6>());
  check(std::integral_constant<int, 8>());
}

// Taking a block apart and putting it together gives the block back, also where its row ends inside it.
TEST(Formats, PartsMakeTheBlocksTheyAreTakenFrom) {
  int compared = 0;
  Formats::for_each([&]<class F>() {
    if constexpr (requires(typename F::Block & block) {
                    F::set_group(block, 0, 0u, 0u);
                    F::kCoding;
                  }) {
      constexpr Coding kCoding = F::kCoding;
      const Format& format = *find_format(F::kName);
      const auto golden = fixtures::read_quant_golden(format);
      for (std::int64_t b = 0; b < golden.num_blocks; ++b) {
        const auto& block = reinterpret_cast<const typename F::Block*>(golden.blocks.data())[b];
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(F::kBlockElements * kCoding.bits / 8));
        for (int i = 0; i < F::kBlockElements; ++i) add_code<kCoding.bits>(codes.data(), i, F::code(block, i));
        std::vector<std::uint32_t> scales, offsets;
        RowParts parts{.codes = codes.data(), .scales = {}, .offsets = {}, .super = 0};
        for (int g = 0; g < F::kBlockElements / kCoding.group; ++g) {
          scales.push_back(F::scale_bits(block, g));
          if constexpr (kCoding.offset == OffsetType::kValue) offsets.push_back(F::offset_bits(block, g));
          if constexpr (kCoding.offset == OffsetType::kZero) offsets.push_back(F::scale_bits(block, g) & 255u);
        }
        if constexpr (kCoding.super != SuperScale::kNone) parts.super = F::super_bits(block);
        parts.scales = scales;
        parts.offsets = offsets;
        typename F::Block made;
        std::memset(&made, 0xa5, sizeof made);
        format.assemble_row(parts, F::kBlockElements, reinterpret_cast<std::byte*>(&made));
        typename F::Block want = block;
        if constexpr (requires { F::set_code(want, 0, 0); }) {  // a minus zero comes back as zero
          for (int i = 0; i < F::kBlockElements; ++i) F::set_code(want, i, F::code(block, i));
        }
        ASSERT_EQ(std::memcmp(&made, &want, sizeof made), 0) << F::kName << " block " << b;
        const std::int64_t cols = F::kBlockElements - 8;
        format.assemble_row(parts, cols, reinterpret_cast<std::byte*>(&made));
        for (int i = 0; i < cols; ++i) ASSERT_EQ(F::code(made, i), F::code(block, i)) << F::kName << " " << i;
        for (int i = static_cast<int>(cols); i < F::kBlockElements; ++i) ASSERT_EQ(F::code(made, i), 0) << F::kName;
      }
      ++compared;
    }
  });
  EXPECT_GE(compared, 37);
}

// What is no number in a checkpoint stays none.
TEST(Formats, NanOfCodesAndScales) {
  FP8_E4M3::Block fp8{.scale = 0, .codes = {0x7f, 0xff, 0x7e}};
  EXPECT_TRUE(std::isnan(FP8_E4M3::decode(fp8, 0)));
  EXPECT_TRUE(std::isnan(FP8_E4M3::decode(fp8, 1)));
  EXPECT_EQ(FP8_E4M3::decode(fp8, 2), 0.0f);
  MXFP8::Block mxfp8{.exponent = 255, .codes = {0x38}};
  EXPECT_TRUE(std::isnan(MXFP8::decode(mxfp8, 0)));
  mxfp8.exponent = 0;
  EXPECT_EQ(MXFP8::decode(mxfp8, 0), 0x1p-127f);
}

TEST(Formats, ListIsConsistent) {
  std::set<std::string_view> names;
  std::set<int> types;
  for (const Format* format : all_formats()) {
    EXPECT_TRUE(names.insert(format->name).second) << format->name;
    EXPECT_EQ(find_format(format->name), format);
    EXPECT_EQ(format->row_bytes(format->block_elements * 3), format->block_bytes * 3);
    EXPECT_TRUE(format->fits(format->block_elements * 3));
    if (format->gguf_type >= 0) {
      EXPECT_TRUE(types.insert(format->gguf_type).second) << format->name;
      EXPECT_EQ(find_gguf_type(format->gguf_type), format);
      EXPECT_EQ(format->fits(format->block_elements * 3 + 1), format->block_elements == 1) << format->name;
    } else {
      EXPECT_TRUE(format->fits(format->block_elements * 3 + 1)) << format->name;
      EXPECT_EQ(format->row_bytes(format->block_elements * 3 + 1), format->block_bytes * 4) << format->name;
    }
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Formats::kCount));
  EXPECT_EQ(types.size(), 16u);
  for (const FormatAlias& alias : format_aliases()) {
    EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
    ASSERT_NE(find_format(alias.name), nullptr) << alias.name;
    EXPECT_EQ(find_format(alias.name)->name, alias.of);
  }
  for (const char* name :  // the command line's
       {"f32", "f16", "bf16", "affine4_g64", "affine8_g64", "fp8_e4m3", "fp8_e5m2", "fp8_block128", "gptq4_g128",
        "awq4_g128", "packed4_g128", "packed8", "bnb_nf4", "mxfp4", "mxfp8", "nvfp4", "q4_k"}) {
    EXPECT_NE(find_format(name), nullptr) << name;
  }
  EXPECT_EQ(find_format("q4_7"), nullptr);
  EXPECT_EQ(find_gguf_type(-1), nullptr);
}

float table_value(CodeTable table, int code) {
  switch (table) {
    case CodeTable::kInteger:
      return static_cast<float>(code);
    case CodeTable::kE2m1:
      return fp4_e2m1_to_float(static_cast<std::uint8_t>(code));
    case CodeTable::kE4m3:
      return fp8_e4m3_to_float(static_cast<std::uint8_t>(code));
    case CodeTable::kE5m2:
      return fp8_e5m2_to_float(static_cast<std::uint8_t>(code));
    case CodeTable::kIq4:
      return static_cast<float>(iq4_value(code));
  }
  return 0;
}

struct Coded {
  double value, size;  ///< and the sum of its two parts' sizes
};

/// One element by the format's coding, in double.
template <class F>
Coded coded(const typename F::Block& block, int element) {
  constexpr Coding kCoding = F::kCoding;
  const int group = element / kCoding.group;
  std::uint32_t super_bits = 0, offset_bits = 0;
  if constexpr (kCoding.super != SuperScale::kNone) super_bits = F::super_bits(block);
  if constexpr (kCoding.offset == OffsetType::kValue || kCoding.offset == OffsetType::kMinimum) {
    offset_bits = F::offset_bits(block, group);
  }
  const std::uint32_t scale_bits = F::scale_bits(block, group);
  const float scale = scale_value(kCoding, scale_bits) * super_value(kCoding.super, super_bits);
  const float value = table_value(kCoding.table, F::code(block, element)) - static_cast<float>(kCoding.bias);
  const double product = static_cast<double>(scale) * static_cast<double>(value);
  const auto offset = static_cast<double>(offset_value(kCoding, scale, scale_bits, offset_bits, super_bits));
  return {product + offset, std::fabs(product) + std::fabs(offset)};
}

// A format's coding means what its `decode` means, but for one rounding.
TEST(Formats, CodingsMeanWhatDecodeMeans) {
  int compared = 0;
  Formats::for_each([&]<class F>() {
    if constexpr (requires { F::kCoding; }) {
      ASSERT_EQ(find_format(F::kName)->coding, &F::kCoding) << F::kName;
      const auto golden = fixtures::read_quant_golden(*find_format(F::kName));
      const auto* blocks = reinterpret_cast<const typename F::Block*>(golden.blocks.data());
      int finite = 0;
      for (std::int64_t b = 0; b < golden.num_blocks; ++b) {
        for (int i = 0; i < F::kBlockElements; ++i) {
          const double want = static_cast<double>(F::decode(blocks[b], i));
          const Coded got = coded<F>(blocks[b], i);
          if (!std::isfinite(want) || !std::isfinite(got.value)) continue;  // the ends of binary16 and of e8m0
          ++finite;
          ASSERT_NEAR(got.value, want, got.size * 0x1p-22 + 0x1p-149) << F::kName << " block " << b << " element " << i;
        }
      }
      EXPECT_GT(finite, golden.num_blocks * F::kBlockElements * 3 / 4) << F::kName;
      ++compared;
    }
  });
  EXPECT_GE(compared, 49);
}

}  // namespace
}  // namespace pagoda::quant
