// quantize: what is written is what the encoder made, bit for bit, with everything else carried over.
#include "pagoda/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "fixtures/hf_model.h"
#include "io/gguf.h"
#include "io/model_file.h"
#include "quant/encode.h"
#include "tiny_chat_model.h"

namespace pagoda::api {
namespace {

namespace fs = std::filesystem;
using fixtures::TemporaryFolder;

const Library& library() {
  static const Library made = test_library();
  return made;
}

io::ModelFile open(const std::string& path) {
  auto file = io::open_model(path);
  PAGODA_CHECK(file.ok(), "{}", file.error().message);
  return std::move(file).value();
}

std::vector<std::byte> bytes_of(const io::ModelFile& file, const io::TensorEntry& entry) {
  std::vector<std::byte> bytes(entry.bytes);
  PAGODA_CHECK(file.read_bytes(entry, 0, bytes).ok(), "{}", entry.name);
  return bytes;
}

std::vector<float> values_of(const io::ModelFile& file, const io::TensorEntry& entry) {
  std::vector<float> values(static_cast<std::size_t>(entry.rows() * entry.cols()));
  const auto bytes = bytes_of(file, entry);
  for (std::int64_t row = 0; row < entry.rows(); ++row) {
    entry.format->decode_row(bytes.data() + row * entry.format->row_bytes(entry.cols()), entry.cols(),
                             values.data() + row * entry.cols());
  }
  return values;
}

TinyChat wide_model() {
  // 512 columns are two blocks of 256; 96 are none.
  TinyChat chat;
  chat.model.hidden = 512;
  chat.model.heads = 16;
  chat.model.kv_heads = 4;
  chat.model.seed = 5;
  return chat;
}

class QuantizeEach : public testing::TestWithParam<std::string> {};

TEST_P(QuantizeEach, EveryTensorIsTheEncodersAndTheRestIsCarriedOver) {
  const TemporaryFile in(tiny_chat_bytes(wide_model()));
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  const auto done = quantize(library(), in.path(), out, {.format = GetParam()});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);

  const io::ModelFile before = open(in.path());
  const io::ModelFile after = open(out);
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  ASSERT_EQ(done->tensors.size(), before.tensors().size());
  std::map<std::string, const QuantizedTensor*> told;
  for (const QuantizedTensor& tensor : done->tensors) told[tensor.name] = &tensor;
  for (const io::TensorEntry& entry : before.tensors().entries()) {
    SCOPED_TRACE(entry.name);
    const io::TensorEntry* const made = after.tensors().find(entry.name);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->shape, entry.shape);
    const QuantizedTensor& row = *told.at(entry.name);
    EXPECT_EQ(row.to, made->format->name);
    EXPECT_EQ(row.bytes, static_cast<std::int64_t>(made->bytes));
    const std::vector<float> values = values_of(before, entry);
    const std::vector<float> written = values_of(after, *made);
    if (entry.shape.size() == 1) {
      EXPECT_EQ(written, values);
      continue;
    }
    const bool mixed = GetParam() == "q4_k_m";
    if (entry.cols() % 256 == 0 && !mixed) {
      EXPECT_EQ(made->format->name, GetParam());
    }
    std::vector<std::byte> encoded(made->bytes);
    quant::find_encoder (*made->format)(values.data(), static_cast<std::int64_t>(values.size()), encoded.data());
    EXPECT_EQ(bytes_of(after, *made), encoded);
    double error = 0, size = 0, largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(written[i]) - values[i];
      error += difference * difference;
      size += static_cast<double>(values[i]) * values[i];
      largest = std::max(largest, std::abs(difference));
    }
    EXPECT_NEAR(row.relative_rms, std::sqrt(error / size), 1e-9);
    EXPECT_EQ(row.largest_error, largest);
  }
  // Every other key as it was, type and bytes.
  const auto raw_keys = [](const std::string& path) {
    const io::FileSource source(File::open(path).value());
    const io::GgufHeader header = io::read_gguf(source).value();
    std::map<std::string, std::vector<std::byte>> keys;
    for (const io::GgufKeyRange& range : header.keys) {
      std::vector<std::byte> value(range.end - range.begin);
      PAGODA_CHECK(source.read(range.begin, value).ok(), "{}", path);
      if (range.key != "general.file_type" && range.key != "general.quantization_version") keys[range.key] = value;
    }
    return keys;
  };
  EXPECT_EQ(raw_keys(in.path()), raw_keys(out));
  EXPECT_EQ(after.config().integer("general.quantization_version", 0, 9).value(), 2);
  const auto model = Model::open(library(), out, {.device = "cpu"});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->info().format, GetParam() == "q4_k"   ? "q4_k_s"
                                  : GetParam() == "q5_k" ? "q5_k_s"
                                  : GetParam() == "q3_k" ? "q3_k_s"
                                                         : GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeEach, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const std::string& name : quantize_formats()) {
                             const quant::Format* const format = quant::find_format(name);
                             if (name == "q4_k_m" || (format != nullptr && format->gguf_type >= 0))
                               names.push_back(name);
                           }
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

TEST(Quantize, RowsThatABlockDoesNotDivideFallBack) {
  const TemporaryFile in(tiny_chat_bytes(wide_model()));
  const TemporaryFolder folder;
  for (const auto& [format, fallback] : std::map<std::string, std::string>{
           {"q2_k", "q4_0"}, {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"}, {"iq4_xs", "iq4_nl"}}) {
    const auto done = quantize(library(), in.path(), folder.path() + "/a", {.format = format, .overwrite = true});
    ASSERT_TRUE(done.ok()) << done.error().message;
    for (const QuantizedTensor& tensor : done->tensors) {
      if (tensor.name.find("ffn_down.weight") != std::string::npos) {
        EXPECT_EQ(tensor.to, fallback);
      }
      if (tensor.name.find("ffn_up.weight") != std::string::npos) {
        EXPECT_EQ(tensor.to, format);
      }
    }
  }
}

// 64 values in a row: nothing of the file would be what its name says.
TEST(Quantize, AFormatThatNoMatrixCanHaveIsRefused) {
  const TemporaryFile in(tiny_chat_bytes());
  const TemporaryFolder folder;
  const auto done = quantize(library(), in.path(), folder.path() + "/a", {.format = "q4_k"});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(done.error().message.starts_with("q4_k can hold the rows of none of the ")) << done.error().message;
  EXPECT_TRUE(done.error().message.ends_with("; they would all be q5_0")) << done.error().message;
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_TRUE(quantize(library(), in.path(), folder.path() + "/a", {.format = "q8_0"}).ok());
}

// llama.cpp's rule, written out for 16 layers.
TEST(Quantize, TheMixGivesSomeLayersMoreBits) {
  TinyChat chat = wide_model();
  chat.model.layers = 16;
  chat.model.ffn = 256;
  const TemporaryFile in(tiny_chat_bytes(chat));
  const TemporaryFolder folder;
  const auto done = quantize(library(), in.path(), folder.path() + "/a", {.format = "q4_k_m"});
  ASSERT_TRUE(done.ok()) << done.error().message;
  const std::string larger = "++..+..+..+..+++";  // 0, 1; 4, 7, 10, 13; 14, 15
  for (const QuantizedTensor& tensor : done->tensors) {
    if (tensor.layer < 0 || !tensor.name.ends_with(".weight") || tensor.to == "f32") continue;
    const bool mixed =
        tensor.name.find("attn_v") != std::string::npos || tensor.name.find("ffn_down") != std::string::npos;
    EXPECT_EQ(tensor.to, mixed && larger[static_cast<std::size_t>(tensor.layer)] == '+' ? "q6_k" : "q4_k")
        << tensor.name;
  }
  EXPECT_EQ(done->tensors.front().to, "q6_k") << "the embedding is the head";
}

TEST(Quantize, RefusalsLeaveNothing) {
  const TemporaryFile in(tiny_chat_bytes(wide_model()));
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/a";
  const auto refused = [&](const QuantizeOptions& options, ErrorCode code, const std::string& word,
                           const std::string& to) {
    const auto done = quantize(library(), in.path(), to, options);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, code) << done.error().message;
    EXPECT_NE(done.error().message.find(word), std::string::npos) << done.error().message;
    EXPECT_TRUE(fs::is_empty(folder.path()));
  };
  refused({.format = "q17"}, ErrorCode::kInvalidArgument, "q4_k_m", out);
  refused({.format = "q8_0", .overwrite = true}, ErrorCode::kInvalidArgument, "is the input", in.path());
  refused({.format = "q8_0"}, ErrorCode::kInvalidArgument, "is the input", in.path());
  refused({.format = "q8_0"}, ErrorCode::kIoFailed, "nowhere", folder.path() + "/nowhere/a");
  int asked = 0;
  refused({.format = "q8_0", .cancelled = [&] { return ++asked > 9; }}, ErrorCode::kCancelled, "interrupted", out);

  TinyChat spoiled = wide_model();
  spoiled.model.nan_id = 3;
  spoiled.model.separate_head = true;
  const TemporaryFile nan(tiny_chat_bytes(spoiled));
  const auto done = quantize(library(), nan.path(), out, {.format = "q8_0"});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kConfigRange);
  EXPECT_NE(done.error().message.find("nan in row 3, column 0, which q8_0 cannot hold"), std::string::npos)
      << done.error().message;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Quantize, OneWarningForWhatIsQuantisedAlready) {
  TinyChat chat = wide_model();
  chat.model.format = "q4_1";
  const TemporaryFile in(tiny_chat_bytes(chat));
  const TemporaryFolder folder;
  std::vector<std::string> lines;
  std::mutex mutex;
  const Library told = Library::create({.threads = 2,
                                        .log =
                                            [&](LogLevel level, std::string_view line) {
                                              const std::lock_guard lock(mutex);
                                              if (level == LogLevel::kWarning) lines.emplace_back(line);
                                            }})
                           .value();
  ASSERT_TRUE(quantize(told, in.path(), folder.path() + "/a", {.format = "q4_1"}).ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines.front().find("quantised already"), std::string::npos);
  // The same format again: the same bytes.
  const io::ModelFile before = open(in.path());
  const io::ModelFile after = open(folder.path() + "/a");
  for (const io::TensorEntry& entry : before.tensors().entries()) {
    EXPECT_EQ(bytes_of(before, entry), bytes_of(after, *after.tensors().find(entry.name))) << entry.name;
  }
}

TEST(Quantize, ProgressEndsWithAll) {
  const TemporaryFile in(tiny_chat_bytes(wide_model()));
  const TemporaryFolder folder;
  std::vector<Progress> seen;
  const auto done = quantize(library(), in.path(), folder.path() + "/a",
                             {.format = "q8_0", .progress = [&](const Progress& each) { seen.push_back(each); }});
  ASSERT_TRUE(done.ok());
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.back().stage, ProgressStage::kQuantize);
  EXPECT_EQ(seen.back().done, seen.back().total);
  EXPECT_EQ(seen.back().total, static_cast<std::uint64_t>(done->bytes_read));
}

}  // namespace
}  // namespace pagoda::api
