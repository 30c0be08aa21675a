#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <random>

#include "fixtures/allocations.h"
#include "fixtures/safetensors_writer.h"
#include "io/model_file.h"

namespace pagoda::io {
namespace {

using fixtures::safetensors_file;

Result<std::vector<TensorEntry>> read(std::string_view bytes) {
  return read_safetensors(MemorySource("test.safetensors", std::as_bytes(std::span(bytes))));
}

bool is_rejection(const Error& error) {
  const bool printable = std::ranges::all_of(error.message, [](char c) { return c >= 0x20 && c < 0x7f; });
  return kind_of(error.code) == ErrorKind::kModel && error.message.starts_with("test.safetensors: ") && printable;
}

/// "a" (6 bytes) and "b" (12 bytes), the second one spoilt.
std::string with_b(std::string_view fields) {
  return pagoda::format(R"({{"a":{{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}},"b":{{{}}}}})", fields);
}

struct Kind {
  const char* name;
  ErrorCode code;
  std::string file;
  const char* said;  // in the message
};

std::vector<Kind> header_kinds() {
  using E = ErrorCode;
  const std::string good = with_b(R"("dtype":"F32","shape":[1,3],"data_offsets":[6,18])");
  const std::string data(18, 'd');
  std::string lies = safetensors_file(good, data);
  lies[1] = 1;  // 256 bytes more
  std::string huge = safetensors_file(good, data);
  huge[7] = '\x7f';
  std::string wraps = safetensors_file(good, data);  // length + 8 wraps around
  std::fill_n(wraps.begin(), 8, '\xff');
  const std::string deep = std::string(12, '[') + std::string(12, ']');
  return {
      {"no length", E::kSafetensorsTruncated, "1234567", "has 7 bytes, fewer than the 8"},
      {"empty", E::kFileEmpty, "", "is empty"},
      {"header longer than the file", E::kSafetensorsHeaderLength, lies, "follow"},
      {"header over 100 MB", E::kSafetensorsHeaderLimit, huge, "at most 100000000"},
      {"header length wraps", E::kSafetensorsHeaderLimit, wraps, "18446744073709551615"},
      {"cut in the header", E::kSafetensorsHeaderLength, safetensors_file(good, data).substr(0, 40), "but 32 follow"},
      {"header of no bytes", E::kSafetensorsHeaderStart, safetensors_file("", data), "''"},
      {"a list", E::kSafetensorsHeaderStart, safetensors_file("[]", ""), "'['"},
      {"space before the object", E::kSafetensorsHeaderStart, safetensors_file(" " + good, data), "' '"},
      {"padded with line ends", E::kSafetensorsHeaderPadding, safetensors_file(good + " \n", data), "'\\x0a'"},
      {"padded with zeros", E::kJsonSyntax, safetensors_file(good + std::string(4, '\0'), data), "a zero byte"},
      {"no JSON", E::kJsonSyntax, safetensors_file("{\"a\":}", data), "offset 5"},
      {"two objects", E::kJsonSyntax, safetensors_file(good + good, data), "offset"},
      {"not UTF-8", E::kJsonEncoding, safetensors_file("{\"\xc0\x80\":1}", data), "UTF-8"},
      {"half a character", E::kJsonEncoding, safetensors_file("{\"\\udc00\":1}", data), "half of a character"},
      {"too deep", E::kJsonDepth, safetensors_file("{\"a\":" + deep + "}", data), "8 levels"},
      {"tensor twice", E::kJsonKeyDuplicate, safetensors_file(R"({"a":{},"a":{}})", data), "'a' is there twice"},
      {"field twice", E::kJsonKeyDuplicate, safetensors_file(with_b(R"("dtype":"F32","dtype":"F32")"), data),
       "'dtype'"},
      {"metadata key twice", E::kJsonKeyDuplicate, safetensors_file(R"({"__metadata__":{"k":"1","k":"2"}})", ""),
       "'k'"},
      {"metadata of numbers", E::kSafetensorsMetadata, safetensors_file(R"({"__metadata__":{"k":1}})", ""),
       "an integer"},
      {"metadata of objects", E::kSafetensorsMetadata, safetensors_file(R"({"__metadata__":{"k":{}}})", ""),
       "an object"},
      {"metadata is text", E::kSafetensorsMetadata, safetensors_file(R"({"__metadata__":"k"})", ""), "a string"},
      {"hole at the end", E::kSafetensorsGap, safetensors_file(good, data + "d"), "end at 18"},
      {"bytes and no tensor", E::kSafetensorsGap, safetensors_file("{}", "d"), "1 bytes follow"},
  };
}

std::vector<Kind> tensor_kinds() {
  using E = ErrorCode;
  const std::string data(18, 'd');
  const auto spoilt = [&](std::string_view fields) { return safetensors_file(with_b(fields), data); };
  const std::string name(1025, 'n');
  return {
      {"tensor is a number", E::kSafetensorsTensorField, safetensors_file(R"({"b":1})", ""), "'b': it is an integer"},
      {"tensor is null", E::kSafetensorsTensorField, safetensors_file(R"({"b":null})", ""), "null"},
      {"tensor is a list", E::kSafetensorsTensorField, safetensors_file(R"({"b":[]})", ""), "a list"},
      {"no dtype", E::kSafetensorsTensorField, spoilt(R"("shape":[3],"data_offsets":[6,18])"), "no dtype"},
      {"no shape", E::kSafetensorsTensorField, spoilt(R"("dtype":"F32","data_offsets":[6,18])"), "no shape"},
      {"no offsets", E::kSafetensorsTensorField, spoilt(R"("dtype":"F32","shape":[3])"), "no data_offsets"},
      {"strides", E::kSafetensorsTensorField,
       spoilt(R"("dtype":"F32","shape":[3],"data_offsets":[6,18],"strides":[1])"), "'strides'"},
      {"empty name", E::kSafetensorsTensorName, safetensors_file(R"({"":{}})", ""), "0 bytes"},
      {"long name", E::kSafetensorsTensorName, safetensors_file("{\"" + name + "\":{}}", ""), "1025 bytes"},
      {"name with a line end", E::kSafetensorsTensorName, safetensors_file(R"({"a\n":{}})", ""), "control characters"},
      {"dtype is a number", E::kSafetensorsTensorType, spoilt(R"("dtype":3)"), "an integer, not a string"},
      {"dtype is a list", E::kSafetensorsTensorType, spoilt(R"("dtype":["F32"])"), "a list, not a string"},
      {"unknown dtype", E::kSafetensorsTensorType, spoilt(R"("dtype":"f32","shape":[3],"data_offsets":[6,18])"),
       "'f32' is unknown"},
      {"shape is a number", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":3)"), "an integer"},
      {"negative dimension", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":[-3])"), "-3"},
      {"real dimension", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":[3.0])"), "a number"},
      {"dimension over 2^48", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":[281474976710657])"),
       "281474976710657"},
      {"dimension of 2^63", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":[9223372036854775808])"),
       "from 0 to 281474976710656"},
      {"nine dimensions", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,3])"),
       "the 8 dimensions"},
      {"nested shape", E::kSafetensorsTensorShape, spoilt(R"("dtype":"F32","shape":[[3]])"), "a list"},
      {"product over 63 bits", E::kSafetensorsTensorSize,
       spoilt(R"("dtype":"F32","shape":[0,281474976710656,281474976710656],"data_offsets":[6,18])"), "63 bits"},
      {"bits over 63 bits", E::kSafetensorsTensorSize,
       spoilt(R"("dtype":"F32","shape":[281474976710656,32767],"data_offsets":[6,18])"), "63 bits"},
      {"half a byte", E::kSafetensorsTensorSize, spoilt(R"("dtype":"F4","shape":[3],"data_offsets":[6,18])"),
       "no whole bytes"},
      {"shape larger than its bytes", E::kSafetensorsTensorSize,  // CASES H7
       spoilt(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[6,10])"), "4 bytes"},
      {"shape smaller than its bytes", E::kSafetensorsTensorSize,
       spoilt(R"("dtype":"F32","shape":[2],"data_offsets":[6,18])"), "12 bytes"},
      {"three offsets", E::kSafetensorsTensorOffset, spoilt(R"("dtype":"F32","shape":[3],"data_offsets":[6,18,20])"),
       "a third number"},
      {"one offset", E::kSafetensorsTensorOffset, spoilt(R"("dtype":"F32","shape":[3],"data_offsets":[6])"),
       "1 numbers"},
      {"negative offset", E::kSafetensorsTensorOffset, spoilt(R"("dtype":"F32","shape":[3],"data_offsets":[-6,6])"),
       "-6"},
      {"offsets are text", E::kSafetensorsTensorOffset, spoilt(R"("dtype":"F32","shape":[3],"data_offsets":["6",18])"),
       "a string"},
      {"begin behind end", E::kSafetensorsTensorOffset, spoilt(R"("dtype":"F32","shape":[3],"data_offsets":[18,6])"),
       "behind their end 6"},
      {"past the file", E::kSafetensorsTensorRange, spoilt(R"("dtype":"F32","shape":[4],"data_offsets":[6,22])"),
       "but 18 follow"},
      {"overlap", E::kSafetensorsTensorOverlap, spoilt(R"("dtype":"BF16","shape":[7],"data_offsets":[4,18])"),
       "inside tensor 'a'"},
      {"same bytes twice", E::kSafetensorsTensorOverlap, spoilt(R"("dtype":"BF16","shape":[3],"data_offsets":[0,6])"),
       "inside tensor"},
      {"hole between", E::kSafetensorsGap, spoilt(R"("dtype":"BF16","shape":[5],"data_offsets":[8,18])"),
       "6 to 8 before tensor 'b'"},
  };
}

TEST(Safetensors, EveryKindOfMalformedFileHasItsCode) {
  std::vector<Kind> kinds = header_kinds();
  for (Kind& kind : tensor_kinds()) kinds.push_back(std::move(kind));
  ASSERT_GE(kinds.size(), 50u);
  for (const Kind& kind : kinds) {
    const fixtures::AllocationMeter meter;
    const auto tensors = read(kind.file);
    ASSERT_FALSE(tensors.ok()) << kind.name;
    EXPECT_EQ(static_cast<int>(tensors.error().code), static_cast<int>(kind.code))
        << kind.name << ": " << tensors.error().message;
    EXPECT_TRUE(is_rejection(tensors.error())) << kind.name << ": " << tensors.error().message;
    EXPECT_NE(tensors.error().message.find(kind.said), std::string::npos)
        << kind.name << ": " << tensors.error().message;
    EXPECT_LT(meter.peak_bytes(), 64 * kind.file.size() + (std::size_t{1} << 20)) << kind.name;
  }
}

TEST(Safetensors, GoodControls) {
  const std::string data(18, 'd');
  const auto with = [&](std::string_view fields) { return safetensors_file(with_b(fields), data); };
  const std::string good = with_b(R"("dtype":"F32","shape":[3],"data_offsets":[6,18])");
  const std::pair<const char*, std::string> controls[] = {
      {"nothing", safetensors_file("{}", "")},
      {"metadata alone", safetensors_file(R"({"__metadata__":{"format":"pt","k":"\u00e9"}})", "")},
      {"plain", safetensors_file(good, data)},
      {"padding", safetensors_file(good + "     ", data)},
      {"spaces inside", safetensors_file("{ \n" + good.substr(1), data)},
      {"fields in another order", with(R"("data_offsets":[6,18],"shape":[3],"dtype":"F32")")},
      {"a name of two bytes a letter",
       safetensors_file(R"({"é":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", "dd")},
      {"scalar", safetensors_file(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "dddd")},
      {"eight dimensions", with(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,3],"data_offsets":[6,18])")},
      {"empty tensor", safetensors_file(R"({"e":{"dtype":"F32","shape":[5,0],"data_offsets":[0,0]}})", "")},
      {"empty tensor between",
       safetensors_file(
           R"({"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},"e":{"dtype":"F32","shape":[0],"data_offsets":[6,6]},)"
           R"("b":{"dtype":"F32","shape":[3],"data_offsets":[6,18]}})",
           data)},
      {"later tensor first",
       safetensors_file(
           R"({"b":{"dtype":"F32","shape":[3],"data_offsets":[6,18]},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})",
           data)},
  };
  for (const auto& [name, file] : controls) {
    const auto tensors = read(file);
    EXPECT_TRUE(tensors.ok()) << name << ": " << tensors.error().message;
  }
}

TEST(Safetensors, EntriesSayWhereBytesLie) {
  const std::string header =
      R"({"b":{"dtype":"F32","shape":[1,3],"data_offsets":[6,18]},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})";
  const auto tensors = read(safetensors_file(header, std::string(18, 'd'))).value();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].format->name, "bf16");
  EXPECT_EQ(tensors[0].offset, 8 + header.size());
  EXPECT_EQ(tensors[0].bytes, 6u);
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].shape, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(tensors[1].format->name, "f32");
  EXPECT_EQ(tensors[1].offset, 8 + header.size() + 6);
}

TEST(Safetensors, CutAtEveryByteAndBitsFlipped) {
  fixtures::SafetensorsWriter writer;
  const std::vector<float> values(37, 0.5f);
  for (int i = 0; i < 9; ++i) writer.add("model.layers." + std::to_string(i) + ".weight", {37}, values);
  const std::string good = writer.bytes();
  ASSERT_TRUE(read(good).ok());
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    const auto tensors = read(std::string_view(good).substr(0, cut));
    ASSERT_FALSE(tensors.ok()) << "cut at " << cut;
    ASSERT_TRUE(is_rejection(tensors.error())) << cut << ": " << tensors.error().message;
  }
  std::mt19937_64 random(5);
  const std::size_t header_bytes = good.size() - 9 * 37 * 4;
  for (int i = 0; i < 10000; ++i) {
    std::string flipped = good;
    flipped[random() % header_bytes] ^= static_cast<char>(1 << random() % 8);
    const auto tensors = read(flipped);
    if (!tensors.ok()) {
      ASSERT_TRUE(is_rejection(tensors.error())) << tensors.error().message;
    }
  }
}

// 1 MB of the smallest entries: nothing grows beyond a small multiple of the text, and the number of tensors is
// bounded.
TEST(Safetensors, ManyEntriesCostLittle) {
  std::string header = "{";
  for (int i = 0; i < 140000; ++i) header += pagoda::format("{}\"{:x}\":{{}}", i == 0 ? "" : ",", i);
  const std::string file = safetensors_file(header + "}", "");
  const fixtures::AllocationMeter meter;
  const std::clock_t start = std::clock();
  EXPECT_FALSE(read(file).ok());
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
  EXPECT_LT(meter.peak_bytes(), file.size() + (std::size_t{64} << 20));
}

TEST(Safetensors, AFileThatShrinksIsAnError) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("pagoda_shrinks_" + std::to_string(::getpid()))).string();
  const std::vector<float> values(5000, 1.0f);
  fixtures::SafetensorsWriter().add("w", {50, 100}, values).write(path);
  const FileSource source(File::open(path).value());
  const auto tensors = read_safetensors(source).value();
  std::filesystem::resize_file(path, 9000);
  std::vector<std::byte> row(400);
  const Status late = source.read(tensors[0].offset + 49 * 400, row);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(static_cast<int>(late.error().code), static_cast<int>(ErrorCode::kFileChanged));
  std::filesystem::resize_file(path, 5);
  EXPECT_EQ(static_cast<int>(read_safetensors(source).error().code), static_cast<int>(ErrorCode::kFileChanged));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pagoda::io
