// Weights of quantised checkpoints, read from the layouts that tools write: bit for bit what other programs make of
// them.
#include "fixtures/checkpoints.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/sha256.h"
#include "io/model_file.h"
#include "quant/formats/bnb4.h"

namespace pagoda::io {
namespace {

using fixtures::checkpoint_path;
using fixtures::SafetensorsWriter;
using fixtures::TemporaryFolder;

/// All values of a matrix, read in pieces of unequal size.
Result<std::vector<float>> values_of(const ModelFile& file, const TensorEntry& entry) {
  std::vector<float> values(static_cast<std::size_t>(entry.rows() * entry.cols()), 1234.5f);
  const std::int64_t sizes[] = {1, 7, 24, 5, 64};
  std::int64_t row = 0;
  for (int i = 0; row < entry.rows(); ++i) {
    const std::int64_t count = std::min(sizes[i % 5], entry.rows() - row);
    const auto piece = std::span(values).subspan(static_cast<std::size_t>(row * entry.cols()),
                                                 static_cast<std::size_t>(count * entry.cols()));
    PAGODA_TRY(file.read_values(entry, row, count, piece));
    row += count;
  }
  return values;
}

std::string hash_of(std::span<const float> values) { return to_hex(sha256(std::as_bytes(values))); }

/// Names of weights whose values are not the expected ones; the error's sentence if it cannot be read.
std::vector<std::string> wrong_weights(const std::string& folder, const RawConfig& expected) {
  std::vector<std::string> wrong;
  const auto file = open_model(folder);
  if (!file.ok()) return {file.error().message};
  int compared = 0;
  for (const std::string_view key : expected.keys()) {
    constexpr std::string_view kPrefix = "weights.";
    if (!key.starts_with(kPrefix)) continue;
    const std::string name(key.substr(kPrefix.size()));
    const TensorEntry* entry = file->tensors().find(name);
    ++compared;
    if (entry == nullptr) {
      wrong.push_back(name + " is missing");
      continue;
    }
    const auto values = values_of(*file, *entry);
    if (!values.ok()) {
      wrong.push_back(values.error().message);
    } else if (hash_of(*values) != expected.text(key).value()) {
      wrong.push_back(name);
    }
  }
  EXPECT_GE(compared, 7);
  return wrong;
}

class Checkpoints : public testing::TestWithParam<std::string> {};

TEST_P(Checkpoints, ValuesAreThoseOfTheLayoutBitForBit) {
  const RawConfig expected = fixtures::checkpoint_expected(GetParam());
  EXPECT_EQ(wrong_weights(checkpoint_path(GetParam()), expected), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(All, Checkpoints, testing::ValuesIn(fixtures::checkpoint_names()),
                         [](const auto& each) { return each.param; });

// Each is a plausible wrong reading, and the comparison above tells it from the right one.
TEST(CheckpointGoldens, NoticeWrongReadings) {
  const std::tuple<const char*, const char*, const char*> readings[] = {
      {"gptq4_g128", "\"true_sequential\"", "\"checkpoint_format\": \"gptq_v2\", \"true_sequential\""},
      {"gptq4_v2_g32", "\"gptq_v2\"", "\"gptq\""},
      {"packed4_g128", "\"symmetric\": true", "\"symmetric\": false"},
      {"fp8_block_structure", "32,", "160,"},
  };
  for (const auto& [name, from, to] : readings) {
    const TemporaryFolder folder;
    fixtures::copy_checkpoint(name, folder, from, to);
    EXPECT_NE(wrong_weights(folder.path(), fixtures::checkpoint_expected(name)), std::vector<std::string>()) << name;
  }
}

TEST(CheckpointGoldens, LeaveToRoundActivationsIsRead) {
  const char kFloat8[] = "\"input_activations\": {\"num_bits\": 8, \"type\": \"float\", \"dynamic\": true}";
  const char kInt8[] = "\"input_activations\": {\"num_bits\": 8, \"type\": \"int\", \"dynamic\": true}";
  const std::tuple<const char*, const char*, const char*, bool> cases[] = {
      // Its activations have scales of 128 columns each: rounding by rows is coarser than what is allowed.
      {"fp8_block128", "\"dynamic\"", "\"dynamic\"", false},
      {"fp8_block128", "\"dynamic\"", "\"none\"", false},
      {"fp8_channel", "\"symmetric\"", "\"symmetric\"", false},
      {"fp8_channel", "\"input_activations\": null", kFloat8, true},
      {"fp8_channel", "\"input_activations\": null", kInt8, false},
      {"fp8_modelopt", "\"architectures\"", "\"architectures\"", true},
      {"packed4_g128", "\"symmetric\"", "\"symmetric\"", false},
  };
  for (const auto& [name, from, to, allowed] : cases) {
    const TemporaryFolder folder;
    fixtures::copy_checkpoint(name, folder, from, to);
    const auto file = open_model(folder.path());
    ASSERT_TRUE(file.ok()) << name << ": " << file.error().message;
    const TensorEntry* const entry = file->tensors().find("model.layers.0.mlp.down_proj.weight");
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->fp8_input, allowed) << name << ": " << to;
    // Scales of channels and tensors are those of rows, and so are those of blocks where a row has one: 64 columns of
    // down, not 160 of up.
    const std::string_view view = name;
    const TensorEntry* const up = file->tensors().find("model.layers.0.mlp.up_proj.weight");
    EXPECT_EQ(up->row_scales, view == "fp8_channel" || view == "fp8_modelopt") << name;
    EXPECT_EQ(entry->row_scales, view != "packed4_g128") << name;
  }
}

TEST(CheckpointGoldens, WhatIsNotServedIsRefusedByName) {
  const std::tuple<const char*, const char*, const char*, const char*> cases[] = {
      {"gptq4_g128", "\"gptq\"", "\"aqlm\"", "quantised by 'aqlm'"},
      {"gptq4_g128", "\"bits\": 4", "\"bits\": 5", "quantization_config.bits is '5'"},
      {"gptq4_g128", "\"group_size\": 128", "\"group_size\": 64", "is wanted"},
      {"gptq4_g128", "\"desc_act\"", "\"is_marlin_format\": true, \"desc_act\"", "is_marlin_format"},
      {"awq4_g64", "\"gemm\"", "\"gemv\"", "quantization_config.version is 'gemv'; Pagoda reads gemm"},
      {"packed4_g128", "\"pack-quantized\"", "\"marlin-24\"", "quantization_config.format is 'marlin-24'"},
      {"packed4_g128", "\"Linear\"", "\"model.layers.0.mlp.down_proj\"", "no group of the configuration names it"},
      {"fp8_block128", "\"e4m3\"", "\"e4m3fnuz\"", "quantization_config.fmt"},
      {"bnb_fp4", "\"load_in_8bit\": false", "\"load_in_8bit\": true", "load_in_8bit"},
      {"affine4_g64", "\"bits\": 4", "\"bits\": 7", "7"},
      {"nvfp4_modelopt", "\"NVFP4\"", "\"W4A8_AWQ\"", "quant_algo is 'W4A8_AWQ'"},
      {"nvfp4_modelopt", "\"NVFP4\"", "\"NVFP4\", \"pre_quant_scale\": true", "pre_quant_scale is 'true'"},
      {"packed4_g128", "\"actorder\": null", "\"actorder\": \"group\"", "act-order (group), and has no weight_g_idx"},
      {"packed4_g128", "\"actorder\": null", "\"actorder\": \"random\"", "actorder is 'random'"},
      {"packed4_g128", "\"type\": \"int\"", "\"type\": \"float\"", "is packed, of type float; int is wanted"},
      {"packed4_g128", "\"dynamic\": false", "\"dynamic\": true", "weights.dynamic is 'true'"},
      {"packed4_g128", "\"num_bits\": 4", "\"num_bits\": 5", "is packed in 5 bits; Pagoda reads 2, 3, 4 and 8"},
      {"packed4_g128", "\"Linear\"", "\"re:(\"", "is no expression"},
      {"packed4_g128", "\"output_activations\"", "\"format\": \"marlin-24\", \"output_activations\"",
       "group_0.format is 'marlin-24'"},
      {"packed4_g128", "\"quantization_status\"",
       "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}, \"quantization_status\"", "sparse-24-bitmask"},
  };
  for (const auto& [name, from, to, said] : cases) {
    const TemporaryFolder folder;
    fixtures::copy_checkpoint(name, folder, from, to);
    const auto model = open_model(folder.path());
    ASSERT_FALSE(model.ok()) << name << ": " << to;
    EXPECT_EQ(kind_of(model.error().code), ErrorKind::kModel) << model.error().message;
    EXPECT_NE(model.error().message.find(said), std::string::npos) << model.error().message;
  }
}

// ----- small checkpoints of one weight -----

class OneWeight {
 public:
  SafetensorsWriter tensors;
  template <class T>
  OneWeight& add(const std::string& name, std::string_view dtype, const std::vector<std::int64_t>& shape,
                 const std::vector<T>& values) {
    tensors.add(name, dtype, shape, std::as_bytes(std::span(values)));
    return *this;
  }
  /// The values of "w.weight", or the error.
  Result<std::vector<float>> read(const std::string& quantization) const {
    const TemporaryFolder folder;
    folder.write("config.json", "{\"quantization_config\": " + quantization + "}");
    tensors.write(folder.path() + "/model.safetensors");
    const ModelFile file = PAGODA_TRY(open_model(folder.path()));
    const TensorEntry* entry = file.tensors().find("w.weight");
    PAGODA_CHECK(entry != nullptr, "no weight");
    return values_of(file, *entry);
  }
};

/// GPTQ of 4 bits, 8 rows of 32 columns in one group: code (row + column) & 15, zero point 8 or row, scale 2^row.
OneWeight gptq(int version, bool symmetric) {
  std::vector<std::uint32_t> codes(4 * 8), zeros(1);
  std::vector<std::uint16_t> scales(8);
  for (std::uint32_t row = 0; row < 8; ++row) {
    for (std::uint32_t c = 0; c < 32; ++c) codes[c / 8 * 8 + row] |= ((row + c) & 15) << (c % 8 * 4);
    const std::uint32_t zero = symmetric ? 8 : row;
    zeros[0] |= ((zero - (version == 1 ? 1 : 0)) & 15) << (row * 4);
    scales[row] = float_to_f16(std::ldexp(1.0f, static_cast<int>(row)));
  }
  OneWeight weight;
  weight.add("w.qweight", "I32", {4, 8}, codes)
      .add("w.qzeros", "I32", {1, 1}, zeros)
      .add("w.scales", "F16", {1, 8}, scales);
  return weight;
}

// CASES G1: version 1 keeps zero points less one, version 2 as they are; a missing field means version 1.
TEST(CheckpointCases, G1GptqVersionsDifferByOneInTheirZeroPoints) {
  for (const bool symmetric : {true, false}) {
    std::vector<float> want;
    for (int row = 0; row < 8; ++row) {
      for (int c = 0; c < 32; ++c) {
        want.push_back(std::ldexp(static_cast<float>(((row + c) & 15) - (symmetric ? 8 : row)), row));
      }
    }
    const std::string keys = R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false)";
    const std::string v1 = keys + R"(, "checkpoint_format": "gptq"})",
                      v2 = keys + R"(, "checkpoint_format": "gptq_v2"})";
    EXPECT_EQ(gptq(1, symmetric).read(keys + "}").value(), want);
    EXPECT_EQ(gptq(1, symmetric).read(v1).value(), want);
    EXPECT_EQ(gptq(2, symmetric).read(v2).value(), want);
    EXPECT_NE(gptq(2, symmetric).read(v1).value(), want) << "the test cannot tell them apart";
  }
}

// CASES G4: the scale of MXFP4 is 2^(b - 127), also at its ends; 255 is no number and is refused by the tensor's name.
TEST(CheckpointCases, G4ScalesOfMxfp4) {
  const std::pair<std::uint8_t, float> scales[] = {
      {0, 0x1p-127f}, {1, 0x1p-126f}, {125, 0.25f}, {127, 1.0f}, {254, 0x1p127f}};
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (const auto& [byte, scale] : scales) {
    std::vector<std::uint8_t> codes(16);
    for (std::size_t i = 0; i < 16; ++i) codes[i] = static_cast<std::uint8_t>((2 * i % 16) | ((2 * i + 1) % 16) << 4);
    OneWeight weight;
    weight.add("w_blocks", "U8", {1, 1, 16}, codes).add("w_scales", "U8", {1, 1}, std::vector<std::uint8_t>{byte});
    const std::vector<float> got = weight.read(R"({"quant_method": "mxfp4"})").value();
    for (std::size_t i = 0; i < 32; ++i) {
      const float code = (i % 16 >= 8 ? -1 : 1) * values[i % 8];
      EXPECT_EQ(got[i], code * scale) << "scale " << int{byte} << " element " << i;
    }
  }
  OneWeight weight;
  weight.add("w_blocks", "U8", {1, 1, 16}, std::vector<std::uint8_t>(16))
      .add("w_scales", "U8", {1, 1}, std::vector<std::uint8_t>{255});
  const auto refused = weight.read(R"({"quant_method": "mxfp4"})");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("'w_scales'"), std::string::npos) << refused.error().message;
}

OneWeight nvfp4(bool divisor, float scale) {
  std::vector<std::uint8_t> codes(16), scales = {0x38, 0x41};  // 1, 2.25
  for (std::size_t i = 0; i < 16; ++i) codes[i] = static_cast<std::uint8_t>(i * 0x11);
  OneWeight weight;
  weight.add(divisor ? "w.weight_packed" : "w.weight", "U8", {1, 16}, codes)
      .add("w.weight_scale", "F8_E4M3", {1, 2}, scales)
      .add(divisor ? "w.weight_global_scale" : "w.weight_scale_2", "F32", {1}, std::vector<float>{scale});
  return weight;
}

// CASES G5: the tensor's scale is a divisor for compressed-tensors and a multiplier for ModelOpt.
TEST(CheckpointCases, G5DirectionsOfNvfp4) {
  const std::string compressed = R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})";
  const std::string modelopt = R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})";
  const std::vector<float> want = nvfp4(false, 1.0f / 3584).read(modelopt).value();
  EXPECT_EQ(want[6], 1.5f * (1.0f / 3584));  // codes 3 of element 6, times 1
  EXPECT_EQ(nvfp4(true, 3584).read(compressed).value(), want);
  EXPECT_EQ(nvfp4(true, 1e-40f).read(compressed).error().code, ErrorCode::kFormatUnsupported)
      << "1 / 1e-40 is no float";
  for (const bool divisor : {true, false}) {
    for (const float bad : {0.0f, -1.0f, INFINITY, NAN}) {
      const auto refused = nvfp4(divisor, bad).read(divisor ? compressed : modelopt);
      ASSERT_FALSE(refused.ok()) << bad;
      EXPECT_NE(refused.error().message.find(divisor ? "'w.weight_global_scale'" : "'w.weight_scale_2'"),
                std::string::npos)
          << refused.error().message;
    }
  }
}

/// AWQ, 8 rows: code 9 everywhere, zero point 1, the scale of group g is g + 1.
OneWeight awq(std::int64_t cols, std::int64_t groups) {
  std::vector<std::uint16_t> scales(static_cast<std::size_t>(groups * 8));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = float_to_f16(static_cast<float>(i / 8 + 1));
  OneWeight weight;
  weight.add("w.qweight", "I32", {cols, 1}, std::vector<std::uint32_t>(static_cast<std::size_t>(cols), 0x99999999u))
      .add("w.qzeros", "I32", {groups, 1}, std::vector<std::uint32_t>(static_cast<std::size_t>(groups), 0x11111111u))
      .add("w.scales", "F16", {groups, 8}, scales);
  return weight;
}

// CASES G7: a group's size is the configuration's, never inferred; the last group may be ragged.
TEST(CheckpointCases, G7GroupsAreOfTheConfigurationsSize) {
  const auto keys = [](int group) {
    return pagoda::format(R"({{"quant_method": "awq", "bits": 4, "group_size": {}, "zero_point": true}})", group);
  };
  for (const auto& [cols, group] : {std::pair(4304, 32), std::pair(11008, 128), std::pair(1000, 64)}) {
    const std::int64_t groups = (cols + group - 1) / group;
    const std::vector<float> got = awq(cols, groups).read(keys(group)).value();
    ASSERT_EQ(std::ssize(got), 8 * cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      ASSERT_EQ(got[static_cast<std::size_t>(3 * cols + c)], 8.0f * static_cast<float>(c / group + 1)) << c;
    }
  }
  // 32 groups of 344 columns, as a cut through groups of 128 would leave them.
  const auto refused = awq(11008, 32).read(keys(128));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kTensorShape);
  EXPECT_NE(refused.error().message.find("'w.scales' has the shape (32, 8); (86, 8) is wanted"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(awq(11008, 32).read(keys(344)).error().code, ErrorCode::kFormatUnsupported);
}

TEST(CheckpointCases, TensorsOfNoWeightAreNamed) {
  OneWeight weight = gptq(1, true);
  weight.add("buffer", "I64", {1}, std::vector<std::int64_t>{3});
  const auto refused = weight.read(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFormatUnsupported);
  EXPECT_NE(refused.error().message.find("'buffer' is of type I64"), std::string::npos) << refused.error().message;
}

// A bias of zeros that GPTQ's tools write for every product is known as such.
TEST(CheckpointCases, BiasesOfZeros) {
  for (const std::uint16_t last : {std::uint16_t{0}, std::uint16_t{1}}) {
    OneWeight weight = gptq(1, true);
    weight.add("w.bias", "F16", {8}, std::vector<std::uint16_t>{0, 0, 0, 0, 0, 0, 0, last});
    const TemporaryFolder folder;
    folder.write("config.json", R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}})");
    weight.tensors.write(folder.path() + "/model.safetensors");
    const ModelFile file = open_model(folder.path()).value();
    EXPECT_EQ(file.tensors().find("w.bias")->zero, last == 0);
  }
}

/// compressed-tensors, pack-quantized in 4 bits, (rows, 32): code 9, scale 1.
OneWeight packed4(std::int64_t rows, const std::vector<std::int64_t>& stated) {
  const auto count = static_cast<std::size_t>(rows);
  OneWeight weight;
  weight.add("w.weight_packed", "I32", {rows, 4}, std::vector<std::uint32_t>(count * 4, 0x99999999u))
      .add("w.weight_scale", "BF16", {rows, 1}, std::vector<std::uint16_t>(count, 0x3f80))
      .add("w.weight_shape", "I64", {2}, stated);
  return weight;
}

std::string packed4_keys(const std::string& targets) {
  return R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": )" + targets + "}";
}

std::string channel_group(const std::string& target, int bits = 4) {
  return pagoda::format(R"({{"targets": ["{}"], "weights": {{"num_bits": {}, "strategy": "channel"}}}})", target, bits);
}

// The expressions are Python's; a name is more than an expression, and that more than a class.
TEST(CheckpointCases, GroupsOfModules) {
  const std::vector<float> ones(32, 1.0f);
  const auto read = [](const std::string& targets) { return packed4(1, {1, 32}).read(packed4_keys(targets)); };
  EXPECT_EQ(read("{\"a\": " + channel_group("w") + "}").value(), ones);
  EXPECT_EQ(read("{\"a\": " + channel_group("re:(?<!x)w$") + "}").value(), ones);
  EXPECT_EQ(read("{\"a\": " + channel_group("Linear", 8) + ", \"b\": " + channel_group("re:.*") + "}").value(), ones);
  EXPECT_EQ(read("{\"a\": " + channel_group("re:.*", 8) + ", \"b\": " + channel_group("w") + "}").value(), ones);
  for (const char* other : {"re:x", "re:.w", "Embedding", "v"}) {
    const auto refused = read("{\"a\": " + channel_group(other) + "}");
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_NE(refused.error().message.find("no group of the configuration names it"), std::string::npos)
        << refused.error().message;
  }
}

// Sizes that overflow what is counted from them, and tensors that say two things.
TEST(CheckpointCases, HostileSizes) {
  const std::string keys = packed4_keys("{\"a\": " + channel_group("Linear") + "}");
  EXPECT_TRUE(packed4(1, {1, 32}).read(keys).ok());
  const std::vector<std::int64_t> stated[] = {
      {1, (std::int64_t{1} << 62) + 8}, {1, 33}, {1, 24}, {2, 32}, {1, 0}, {-1, 32}, {std::int64_t{1} << 62, 32}};
  for (const std::vector<std::int64_t>& sizes : stated) {
    const auto refused = packed4(1, sizes).read(keys);
    ASSERT_FALSE(refused.ok()) << sizes[0] << ", " << sizes[1];
    EXPECT_EQ(refused.error().code, ErrorCode::kTensorShape) << refused.error().message;
  }
  // Without a g_idx nobody knows the columns of act-order.
  const auto unordered =
      gptq(1, true).read(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})");
  ASSERT_FALSE(unordered.ok());
  EXPECT_NE(unordered.error().message.find("is of act-order (desc_act), and has no g_idx"), std::string::npos)
      << unordered.error().message;
  OneWeight twice = gptq(1, true);
  twice.add("w.weight", "F16", {8, 32}, std::vector<std::uint16_t>(256));
  const auto refused = twice.read(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("'w.weight' is there twice"), std::string::npos) << refused.error().message;
}

TEST(CheckpointCases, SizesOfBitsandbytes) {
  const auto weight = [](std::int64_t rows, std::int64_t cols) {
    const std::string state = pagoda::format(R"({{"blocksize": 64, "shape": [{}, {}]}})", rows, cols);
    std::vector<float> table(16);
    for (int i = 0; i < 16; ++i) table[static_cast<std::size_t>(i)] = quant::Fp4Table::value(i);
    OneWeight made;
    made.add("w.weight", "U8", {32, 1}, std::vector<std::uint8_t>(32))
        .add("w.weight.absmax", "F32", {1}, std::vector<float>{1})
        .add("w.weight.quant_map", "F32", {16}, table)
        .add("w.weight.quant_state.bitsandbytes__fp4", "U8", {std::ssize(state)},
             std::vector<std::uint8_t>(state.begin(), state.end()));
    return made;
  };
  const std::string keys = R"({"quant_method": "bitsandbytes", "load_in_4bit": true})";
  EXPECT_TRUE(weight(1, 64).read(keys).ok());
  // Their product is 64, modulo 2^64.
  constexpr std::int64_t kRows = 1057163488679, kCols = 17177455127 * std::int64_t{64};
  static_assert(static_cast<std::uint64_t>(kRows) * static_cast<std::uint64_t>(kCols) == 64);
  for (const auto& [rows, cols] :
       {std::pair(std::int64_t{2}, std::int64_t{64}), {std::int64_t{1}, std::int64_t{128}}, {kRows, kCols}}) {
    const auto refused = weight(rows, cols).read(keys);
    ASSERT_FALSE(refused.ok()) << rows << ", " << cols;
    EXPECT_EQ(kind_of(refused.error().code), ErrorKind::kModel) << refused.error().message;
  }
}

// Scales that no block can hold are refused, not rounded.
TEST(CheckpointCases, ScalesTooFineForTheirBlocks) {
  OneWeight weight;
  weight.add("w.weight", "I8", {1, 32}, std::vector<std::int8_t>(32, 5))
      .add("w.weight_scale", "F32", {1, 1}, std::vector<float>{0.1f});
  const std::string keys =
      R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"a": {"targets": ["Linear"],
          "weights": {"num_bits": 8, "strategy": "channel"}}}})";
  const auto refused = weight.read(keys);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("'w.weight_scale': has scales of more than 16 significant bits"),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace pagoda::io
