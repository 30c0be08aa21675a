// Well-formed GGUF files: what is written is what is read.
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "fixtures/gguf_writer.h"
#include "io/model_file.h"

namespace pagoda::io {
namespace {

using fixtures::GgufBytes;
using fixtures::GgufType;
using fixtures::GgufWriter;

Result<GgufHeader> read(const std::string& bytes) {
  return read_gguf(MemorySource("test.gguf", std::as_bytes(std::span(bytes))));
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

TEST(Gguf, ReadsEveryValueType) {
  GgufWriter writer;
  writer.set("u8", std::uint8_t{200}).set("i8", std::int8_t{-100}).set("u16", std::uint16_t{60000});
  writer.set("i16", std::int16_t{-30000}).set("u32", std::uint32_t{4000000000}).set("i32", std::int32_t{-2000000000});
  writer.set("u64", std::uint64_t{1} << 63).set("i64", std::int64_t{-1} << 62).set("f32", 0.1f).set("f64", 0.1);
  writer.set("yes", true).set("no", false).set("text", "Grüße \"x\"").set("empty", "");
  auto header = read(writer.bytes());
  ASSERT_TRUE(header.ok()) << header.error().message;
  const RawConfig& config = header->config;
  EXPECT_EQ(config.size(), 14u);
  EXPECT_EQ(*config.integer("u8", 0, 255), 200);
  EXPECT_EQ(*config.integer("i8", -128, 127), -100);
  EXPECT_EQ(*config.integer("u16", 0, 65535), 60000);
  EXPECT_EQ(*config.integer("i16", -32768, 32767), -30000);
  EXPECT_EQ(*config.integer("u32", 0, 4294967295), 4000000000);
  EXPECT_EQ(*config.integer("i32", INT32_MIN, INT32_MAX), -2000000000);
  EXPECT_EQ(*config.find("u64")->get_if<std::uint64_t>(), std::uint64_t{1} << 63);
  EXPECT_EQ(config.integer("u64", 0, INT64_MAX).error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(*config.integer("i64", INT64_MIN, 0), std::int64_t{-1} << 62);
  EXPECT_EQ(*config.number("f32", 0, 1), static_cast<double>(0.1f));
  EXPECT_EQ(*config.number("f64", 0, 1), 0.1);
  EXPECT_TRUE(*config.boolean("yes"));
  EXPECT_FALSE(*config.boolean("no"));
  EXPECT_EQ(*config.text("text"), "Grüße \"x\"");
  EXPECT_EQ(*config.text("empty"), "");
}

TEST(Gguf, ReadsEveryArrayType) {
  GgufWriter writer;
  writer.set("u8", std::vector<std::uint8_t>{1, 255}).set("i8", std::vector<std::int8_t>{-1, 127});
  writer.set("u16", std::vector<std::uint16_t>{65535}).set("i16", std::vector<std::int16_t>{-2, 3, 5});
  writer.set("u32", std::vector<std::uint32_t>{4294967295}).set("i32", std::vector<std::int32_t>{-7});
  writer.set("u64", std::vector<std::uint64_t>{7, UINT64_MAX}).set("i64", std::vector<std::int64_t>{INT64_MIN});
  writer.set("f32", std::vector<float>{0.5f, -1e30f}).set("f64", std::vector<double>{1e-300});
  writer.set("bools", std::vector<bool>{true, false, true}).set("none", std::vector<float>{});
  writer.set("texts", std::vector<std::string>{"", "a", "\xff\xfe", "läng"});
  writer.set("lists", std::vector<std::vector<std::int32_t>>{{1, 2}, {}, {3}});
  auto header = read(writer.bytes());
  ASSERT_TRUE(header.ok()) << header.error().message;
  const RawConfig& config = header->config;
  EXPECT_EQ(*config.integers("u8", 0, 255), (std::vector<std::int64_t>{1, 255}));
  EXPECT_EQ(*config.integers("i8", -128, 127), (std::vector<std::int64_t>{-1, 127}));
  EXPECT_EQ(*config.integers("u16", 0, 65535), (std::vector<std::int64_t>{65535}));
  EXPECT_EQ(*config.integers("i16", -2, 5), (std::vector<std::int64_t>{-2, 3, 5}));
  EXPECT_EQ(*config.integers("u32", 0, INT64_MAX), (std::vector<std::int64_t>{4294967295}));
  EXPECT_EQ(*config.integers("i32", -9, 0), (std::vector<std::int64_t>{-7}));
  EXPECT_EQ(config.integers("u64", 0, INT64_MAX).error().code, ErrorCode::kConfigRange);
  EXPECT_EQ(*config.integers("i64", INT64_MIN, 0), (std::vector<std::int64_t>{INT64_MIN}));
  EXPECT_EQ(*config.numbers("f32", -1e38, 1), (std::vector<double>{0.5, static_cast<double>(-1e30f)}));
  EXPECT_EQ(*config.numbers("f64", 0, 1), (std::vector<double>{1e-300}));
  EXPECT_EQ(*config.booleans("bools"), (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(config.numbers("none", 0, 1)->empty());
  const StringList& texts = **config.texts("texts");
  ASSERT_EQ(texts.size(), 4u);
  EXPECT_EQ(texts[0], "");
  EXPECT_EQ(texts[1], "a");
  EXPECT_EQ(texts[2], "\xff\xfe");
  EXPECT_EQ(texts[3], "läng");
  const auto& lists = *config.find("lists")->get_if<Value::List>();
  ASSERT_EQ(lists.size(), 3u);
  EXPECT_EQ(lists[0].get_if<NumberList>()->integer(1), 2);
  EXPECT_EQ(lists[1].get_if<NumberList>()->size(), 0u);
}

TEST(Gguf, StringsLongerThanTheWindowAndAcrossItsEdges) {
  GgufWriter writer;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 300; ++i) texts.push_back(std::string(i * 37 % 5000, static_cast<char>('a' + i % 26)));
  texts.push_back(std::string(700001, 'z'));
  writer.set("texts", texts).set("after", std::uint32_t{77});
  auto header = read(writer.bytes());
  ASSERT_TRUE(header.ok()) << header.error().message;
  const StringList& found = **header->config.texts("texts");
  ASSERT_EQ(found.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(found[i], texts[i]) << i;
  EXPECT_EQ(*header->config.integer("after", 0, 100), 77);
}

TEST(Gguf, TensorsOfEveryFormatAndRank) {
  for (const std::uint32_t alignment : {8u, 32u, 4096u}) {
    GgufWriter writer;
    writer.alignment = alignment;
    std::vector<std::vector<std::byte>> written;
    std::vector<const quant::Format*> formats;
    for (const quant::Format* format : quant::all_formats()) {
      if (format->gguf_type < 0) continue;
      formats.push_back(format);
      const std::int64_t cols = format->block_elements * 3;
      written.push_back(some_bytes(static_cast<std::size_t>(format->row_bytes(cols) * 5)));
      writer.add_tensor(format->name, format->name, {5, cols}, written.back());
    }
    const auto ranked = some_bytes(2 * 3 * 5 * 7 * 4);
    writer.add_tensor("rank1", "f32", {210}, ranked).add_tensor("rank3", "f32", {6, 5, 7}, ranked);
    writer.add_tensor("rank4", "f32", {2, 3, 5, 7}, ranked).add_tensor("none", "f32", {0, 7}, {});
    const std::string bytes = writer.bytes();
    auto model = open_gguf(std::make_unique<MemorySource>("test.gguf", std::as_bytes(std::span(bytes))));
    ASSERT_TRUE(model.ok()) << model.error().message;
    ASSERT_EQ(model->tensors().size(), 20u);
    EXPECT_EQ(model->tensors().entries()[16].name, "rank1") << "the file's order";
    for (std::size_t i = 0; i < formats.size(); ++i) {
      const quant::Format* format = formats[i];
      const TensorEntry& entry = *model->tensors().find(format->name);
      EXPECT_EQ(entry.format, format);
      EXPECT_EQ(entry.shape, (std::vector<std::int64_t>{5, format->block_elements * 3}));
      EXPECT_EQ(entry.offset % alignment, 0u);
      std::vector<std::byte> rows(written[i].size() / 5 * 2);
      ASSERT_TRUE(model->read_rows(entry, 2, 2, rows).ok());
      EXPECT_TRUE(std::equal(rows.begin(), rows.end(), written[i].begin() + static_cast<std::ptrdiff_t>(rows.size())));
    }
    EXPECT_EQ(model->tensors().find("rank4")->rows(), 30);
    EXPECT_EQ(model->tensors().find("rank4")->cols(), 7);
    EXPECT_EQ(model->tensors().find("rank1")->rows(), 1);
    EXPECT_EQ(model->tensors().find("none")->bytes, 0u);
    EXPECT_EQ(model->tensors().find("absent"), nullptr);
  }
}

TEST(Gguf, Version2ReadsAlike) {
  GgufWriter writer;
  writer.version = 2;
  writer.set("general.architecture", "x").add_tensor("w", "f32", {3}, some_bytes(12));
  auto header = read(writer.bytes());
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->version, 2u);
  EXPECT_EQ(header->tensors.size(), 1u);
}

struct RealModel {
  const char* file;
  std::size_t tensors;
  std::size_t keys;
  std::size_t tokens;
};

TEST(Gguf, RealModels) {
  for (const RealModel& real : {RealModel{"SmolLM2-135M-Instruct.Q4_1.gguf", 272, 33, 49152},
                                RealModel{"gemma-3-270m-q4_k_m.gguf", 236, 33, 262144}}) {
    const std::string path = std::string(PAGODA_SOURCE_DIR "/models/") + real.file;
    if (!std::filesystem::exists(path)) {
      std::printf("NOT RUN: %s is not here (make models)\n", path.c_str());
      continue;
    }
    auto model = open_model(path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->container(), "GGUF version 3");
    EXPECT_EQ(model->tensors().size(), real.tensors);
    EXPECT_EQ(model->config().size(), real.keys);
    EXPECT_EQ((*model->config().texts("tokenizer.ggml.tokens"))->size(), real.tokens);
    const TensorEntry& embedding = *model->tensors().find("token_embd.weight");
    EXPECT_EQ(embedding.rows(), static_cast<std::int64_t>(real.tokens));
    std::vector<std::byte> row(static_cast<std::size_t>(embedding.format->row_bytes(embedding.cols())));
    EXPECT_TRUE(model->read_rows(embedding, embedding.rows() - 1, 1, row).ok());
  }
}

}  // namespace
}  // namespace pagoda::io
