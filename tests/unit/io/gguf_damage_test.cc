// A good file, damaged: cut anywhere, any bit flipped, a disk that fails, a file that shrinks while it is open.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "fixtures/allocations.h"
#include "fixtures/gguf_writer.h"
#include "io/gguf.h"
#include "io/model_file.h"

namespace pagoda::io {
namespace {

/// 80 KiB, of which some 2 are the header: keys of all kinds, a vocabulary, tensors.
std::string sample_file(int num_tokens) {
  fixtures::GgufWriter writer;
  writer.set("general.architecture", "sample").set("sample.block_count", std::uint32_t{3});
  writer.set("sample.epsilon", 1e-5f).set("sample.flag", true).set("sample.pattern", std::vector<bool>{true, false});
  writer.set("sample.heads", std::vector<std::uint32_t>{3, 1, 3}).set("sample.large", std::uint64_t{1} << 40);
  writer.set("sample.lists", std::vector<std::vector<std::int32_t>>{{1, 2}, {3}});
  std::vector<std::string> tokens;
  for (int i = 0; i < num_tokens; ++i) tokens.push_back("token" + std::to_string(i * 7919 % 1000));
  writer.set("tokenizer.ggml.tokens", tokens).set("general.name", "a sample");
  const std::vector<float> values(4099, 0.5f);
  for (int i = 0; i < 5; ++i) writer.add_tensor("blk." + std::to_string(i) + ".w", {4099}, values);
  writer.add_tensor("last", "q4_1", {3, 64}, std::vector<std::byte>(120, std::byte{7}));
  return writer.bytes();
}

Result<GgufHeader> read(std::string_view bytes) {
  return read_gguf(MemorySource("test.gguf", std::as_bytes(std::span(bytes))));
}

bool is_rejection(const Error& error) {
  const bool printable = std::ranges::all_of(error.message, [](char c) { return c >= 0x20 && c < 0x7f; });
  return kind_of(error.code) == ErrorKind::kModel && error.message.starts_with("test.gguf: ") && printable;
}

TEST(GgufDamage, CutAtEveryByte) {
  const std::string file = sample_file(7);
  ASSERT_GT(file.size(), 80000u);
  ASSERT_TRUE(read(file).ok()) << read(file).error().message;
  std::vector<std::size_t> cuts(65536);
  for (std::size_t i = 0; i < cuts.size(); ++i) cuts[i] = i;
  std::mt19937_64 random(11);
  for (int i = 0; i < 256; ++i) cuts.push_back(65536 + random() % (file.size() - 65536));
  cuts.push_back(file.size() - 1);
  for (const std::size_t cut : cuts) {
    const auto header = read(std::string_view(file).substr(0, cut));
    ASSERT_FALSE(header.ok()) << "cut at " << cut;
    ASSERT_TRUE(is_rejection(header.error())) << cut << ": " << header.error().message;
  }
}

TEST(GgufDamage, FlippedBitsOfTheHeader) {
  const std::string good = sample_file(50);
  const std::uint64_t header_bytes = read(good)->data_offset;
  std::string file = good;
  std::mt19937_64 random(13);
  int rejected = 0;
  constexpr int kFlips = 10000;
  for (int i = 0; i < kFlips; ++i) {
    const std::size_t bit = random() % (header_bytes * 8);
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    const fixtures::AllocationMeter meter;
    const auto header = read(file);
    ASSERT_LT(meter.peak_bytes(), header_bytes + (std::size_t{1} << 20)) << "bit " << bit;
    if (!header.ok()) {
      ++rejected;
      ASSERT_TRUE(is_rejection(header.error())) << "bit " << bit << ": " << header.error().message;
    }
    file[bit / 8] = good[bit / 8];
  }
  EXPECT_GT(rejected, kFlips / 3);
  EXPECT_LT(rejected, kFlips) << "letters of names and texts may change";
}

/// Fails at its n-th read, as a disk does.
class FailingSource final : public ByteSource {
 public:
  FailingSource(std::string_view bytes, int fail_at)
      : bytes_("test.gguf", std::as_bytes(std::span(bytes))), reads_left_(fail_at) {}

  const std::string& name() const override { return bytes_.name(); }
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (reads_left_-- == 0) return fail(ErrorCode::kFileUnreadable, "test.gguf: input/output error");
    return bytes_.read(offset, into);
  }
  bool failed() const { return reads_left_ < 0; }

 private:
  MemorySource bytes_;
  mutable int reads_left_;
};

TEST(GgufDamage, EveryReadMayFail) {
  fixtures::GgufWriter writer;
  for (int i = 0; i < 9; ++i) writer.set("k" + std::to_string(i), std::string(200001, 'x'));
  writer.set("texts", std::vector<std::string>(3, std::string(300001, 'y')));
  const std::string file = writer.bytes();
  for (int fail_at = 0;; ++fail_at) {
    const FailingSource source(file, fail_at);
    const auto header = read_gguf(source);
    if (!source.failed()) {
      EXPECT_TRUE(header.ok());
      EXPECT_GT(fail_at, 8) << "the file is read in several pieces";
      break;
    }
    ASSERT_FALSE(header.ok());
    EXPECT_EQ(header.error().code, ErrorCode::kFileUnreadable);
  }
}

/// A file whose bytes change after its second read.
class ChangingSource final : public ByteSource {
 public:
  explicit ChangingSource(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> into) const override {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = static_cast<std::byte>(bytes_[offset + i]);
    if (reads_++ > 1) std::ranges::fill(into, std::byte{0xff});
    return Ok{};
  }

 private:
  std::string name_ = "test.gguf";
  std::string bytes_;
  mutable int reads_ = 0;
};

TEST(GgufDamage, FileThatChangesBetweenTwoReads) {
  fixtures::GgufWriter writer;
  writer.set("texts", std::vector<std::string>(5000, std::string(90, 'y')));
  const auto header = read_gguf(ChangingSource(writer.bytes()));
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().code, ErrorCode::kFileChanged) << header.error().message;
}

// CASES H3: shortened after it was opened.
TEST(GgufDamage, ShortenedWhileOpen) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("pagoda_shortened_" + std::to_string(::getpid()))).string();
  const std::string bytes = sample_file(50);
  std::ofstream(path, std::ios::binary) << bytes;
  auto model = open_model(path);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const TensorEntry& last = *model->tensors().find("last");
  std::vector<std::byte> rows(120);
  EXPECT_TRUE(model->read_rows(last, 0, 3, rows).ok());
  EXPECT_EQ(rows[119], std::byte{7});
  std::filesystem::resize_file(path, bytes.size() - 30);
  const auto status = model->read_rows(last, 0, 3, rows);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kFileChanged);
  EXPECT_NE(status.error().message.find(path), std::string::npos);
  EXPECT_TRUE(model->read_rows(last, 0, 2, std::span(rows).first(80)).ok()) << "what is still there is read";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pagoda::io
