// Files that break one rule each, made from well-formed ones; the error has that rule's code.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "fixtures/allocations.h"
#include "gguf_draft.h"
#include "io/gguf.h"

namespace pagoda::io {
namespace {

constexpr int kSeeds = 20;

struct Kind {
  const char* name;
  ErrorCode code;
  std::function<void(Draft&, Random&)> spoil;
};

Draft::Key& any_key(Draft& draft, Random& random) { return draft.keys[below(random, draft.keys.size())]; }
Draft::Tensor& any_tensor(Draft& draft, Random& random) { return draft.tensors[below(random, draft.tensors.size())]; }

std::uint64_t huge(Random& random) {
  constexpr int shifts[] = {63, 62, 48, 40, 33, 32};
  return (std::uint64_t{1} << shifts[below(random, 6)]) + below(random, 1000);
}

void set_value(Draft& draft, Random& random, GgufType type, std::string value) {
  Draft::Key& key = any_key(draft, random);
  key.type = static_cast<std::uint32_t>(type);
  key.value = std::move(value);
}

void add_key(Draft& draft, Random& random, Draft::Key key) {
  draft.keys.insert(draft.keys.begin() + static_cast<std::ptrdiff_t>(below(random, draft.keys.size() + 1)),
                    std::move(key));
}

std::vector<Kind> header_kinds() {
  using E = ErrorCode;
  return {
      {"magic of another file", E::kGgufMagic, [](Draft& d, Random& r) { d.magic[below(r, 4)] ^= 0x20; }},
      {"magic of an old format", E::kGgufMagic, [](Draft& d, Random&) { d.magic = "lmgg"; }},
      {"magic backwards", E::kGgufByteOrder, [](Draft& d, Random&) { d.magic = "FUGG"; }},
      {"big-endian version", E::kGgufByteOrder,
       [](Draft& d, Random& r) { d.version = static_cast<std::uint32_t>(1 + below(r, 3)) << 24; }},
      {"version 0", E::kGgufVersion, [](Draft& d, Random&) { d.version = 0; }},
      {"version 1", E::kGgufVersion, [](Draft& d, Random&) { d.version = 1; }},
      {"version of the future", E::kGgufVersion,
       [](Draft& d, Random& r) { d.version = 4 + static_cast<std::uint32_t>(below(r, 9000)); }},
      {"huge tensor count", E::kGgufTensorCount, [](Draft& d, Random& r) { d.num_tensors = huge(r); }},
      {"tensor count beyond the file", E::kGgufTensorCount,
       [](Draft& d, Random& r) { d.num_tensors = 5000 + below(r, 1000); }},
      {"huge key count", E::kGgufKeyCount, [](Draft& d, Random& r) { d.num_keys = huge(r); }},
      {"key count beyond the file", E::kGgufKeyCount, [](Draft& d, Random& r) { d.num_keys = 9000 + below(r, 9); }},
      {"file ends in the header", E::kGgufTruncated,
       [](Draft& d, Random& r) { d.missing_bytes = d.bytes().size() - 1 - below(r, 15); }},
      {"split in several files", E::kGgufSplit,
       [](Draft& d, Random& r) { add_key(d, r, u32_key("split.count", 2 + static_cast<std::uint32_t>(below(r, 9)))); }},
      {"split count of another type", E::kGgufSplit,
       [](Draft& d, Random& r) { add_key(d, r, string_key("split.count", "2")); }},
  };
}

std::vector<Kind> key_kinds() {
  using E = ErrorCode;
  using T = GgufType;
  return {
      {"empty key name", E::kGgufKeyName, [](Draft& d, Random& r) { any_key(d, r).name.clear(); }},
      {"key name over 64 KiB", E::kGgufKeyName,
       [](Draft& d, Random& r) { any_key(d, r).name.assign(65536 + below(r, 9), 'k'); }},
      {"key name with control characters", E::kGgufKeyName,
       [](Draft& d, Random& r) { any_key(d, r).name += static_cast<char>(below(r, 32)); }},
      {"key name not UTF-8", E::kGgufStringEncoding,
       [](Draft& d, Random& r) {
         constexpr std::string_view bad[] = {"\xff",     "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                             "\xe2\x82", "\x80"};
         any_key(d, r).name += bad[below(r, 6)];
       }},
      {"huge key name", E::kGgufStringLength, [](Draft& d, Random& r) { any_key(d, r).name_length = huge(r); }},
      {"key twice", E::kGgufKeyDuplicate, [](Draft& d, Random& r) { add_key(d, r, u32_key(d.keys.back().name, 5)); }},
      {"unknown value type", E::kGgufValueType,
       [](Draft& d, Random& r) { any_key(d, r).type = 13 + static_cast<std::uint32_t>(below(r, 1u << 30)); }},
      {"unknown element type", E::kGgufValueType,
       [](Draft& d, Random& r) {
         set_value(d, r, T::kArray, array_value(static_cast<T>(13 + below(r, 99)), 1, GgufBytes().put(7)));
       }},
      {"bool of neither", E::kGgufBoolValue,
       [](Draft& d, Random& r) { set_value(d, r, T::kBool, std::string(1, static_cast<char>(2 + below(r, 254)))); }},
      {"array with a bool of neither", E::kGgufBoolValue,
       [](Draft& d, Random& r) {
         set_value(d, r, T::kArray, array_value(T::kBool, 3, GgufBytes().put_raw(std::string("\1\0\x2", 3))));
       }},
      {"huge string", E::kGgufStringLength,
       [](Draft& d, Random& r) { set_value(d, r, T::kString, GgufBytes().put(huge(r)).text()); }},
      {"string not UTF-8", E::kGgufStringEncoding,
       [](Draft& d, Random& r) { set_value(d, r, T::kString, GgufBytes().put_string("a\xf0\x82\x82\xac").text()); }},
      {"huge string in an array", E::kGgufStringLength,
       [](Draft& d, Random& r) {
         set_value(d, r, T::kArray, array_value(T::kString, 2, GgufBytes().put_string("one").put(huge(r))));
       }},
      {"huge array of numbers", E::kGgufArrayLength,
       [](Draft& d, Random& r) {
         constexpr T types[] = {T::kU8, T::kI16, T::kF32, T::kBool, T::kU64, T::kF64};
         set_value(d, r, T::kArray, array_value(types[below(r, 6)], huge(r), GgufBytes().put(7)));
       }},
      {"array whose bytes pass 64 bits", E::kGgufArrayLength,
       [](Draft& d, Random& r) {
         set_value(d, r, T::kArray, array_value(T::kU64, (std::uint64_t{1} << 61) + below(r, 3), GgufBytes().put(7)));
       }},
      {"array beyond the file", E::kGgufArrayLength,
       [](Draft& d, Random& r) {
         set_value(d, r, T::kArray, array_value(T::kU32, 60000 + below(r, 99), GgufBytes().put(7)));
       }},
      {"huge array of strings", E::kGgufArrayLength,
       [](Draft& d, Random& r) {
         set_value(d, r, T::kArray, array_value(T::kString, huge(r), GgufBytes().put_string("one")));
       }},
      {"huge array of arrays", E::kGgufArrayLength,
       [](Draft& d, Random& r) { set_value(d, r, T::kArray, array_value(T::kArray, huge(r), {})); }},
      {"huge array in an array", E::kGgufArrayLength,
       [](Draft& d, Random& r) {
         const GgufBytes inner = GgufBytes().put_raw(array_value(T::kU16, huge(r), {}));
         set_value(d, r, T::kArray, array_value(T::kArray, 1, inner));
       }},
      {"more than 65536 arrays in arrays", E::kGgufArrayLength,
       [](Draft& d, Random& r) {
         GgufBytes inner;
         const std::uint64_t count = 65537 + below(r, 9);
         for (std::uint64_t i = 0; i < count; ++i) inner.put_raw(array_value(T::kU8, 0, {}));
         set_value(d, r, T::kArray, array_value(T::kArray, count, inner));
       }},
      {"arrays three deep", E::kGgufArrayNesting,
       [](Draft& d, Random& r) {
         std::string value = array_value(T::kU8, 0, {});
         for (std::uint64_t i = 0; i < 2 + below(r, 500); ++i) {
           value = array_value(T::kArray, 1, GgufBytes().put_raw(value));
         }
         set_value(d, r, T::kArray, value);
       }},
      {"alignment no power of two", E::kGgufAlignment,
       [](Draft& d, Random& r) {
         add_key(d, r, u32_key("general.alignment", 33 + static_cast<std::uint32_t>(below(r, 31))));
       }},
      {"alignment under 8", E::kGgufAlignment,
       [](Draft& d, Random& r) {
         constexpr std::uint32_t small[] = {0, 1, 2, 4};
         add_key(d, r, u32_key("general.alignment", small[below(r, 4)]));
       }},
      {"huge alignment", E::kGgufAlignment,
       [](Draft& d, Random& r) { add_key(d, r, u32_key("general.alignment", 1u << (21 + below(r, 11)))); }},
      {"alignment of another type", E::kGgufAlignment,
       [](Draft& d, Random& r) { add_key(d, r, string_key("general.alignment", "32")); }},
  };
}

std::vector<Kind> tensor_kinds() {
  using E = ErrorCode;
  return {
      {"empty tensor name", E::kGgufTensorName, [](Draft& d, Random& r) { any_tensor(d, r).name.clear(); }},
      {"tensor name over 1 KiB", E::kGgufTensorName,
       [](Draft& d, Random& r) { any_tensor(d, r).name.assign(1025 + below(r, 99), 't'); }},
      {"tensor name with control characters", E::kGgufTensorName,
       [](Draft& d, Random& r) { any_tensor(d, r).name += "\x7f"; }},
      {"tensor name not UTF-8", E::kGgufStringEncoding, [](Draft& d, Random& r) { any_tensor(d, r).name += "\xfe"; }},
      {"huge tensor name", E::kGgufStringLength, [](Draft& d, Random& r) { any_tensor(d, r).name_length = huge(r); }},
      {"tensor twice", E::kGgufTensorDuplicate,
       [](Draft& d, Random& r) {
         const std::string name = any_tensor(d, r).name;
         d.tensors.push_back({.name = name, .dims = {7}, .type = 0, .data_bytes = 28});
       }},
      {"rank 0", E::kGgufTensorRank, [](Draft& d, Random& r) { any_tensor(d, r).rank = 0; }},
      {"rank over 4", E::kGgufTensorRank,
       [](Draft& d, Random& r) { any_tensor(d, r).rank = 5 + static_cast<std::uint32_t>(below(r, 1u << 31)); }},
      {"negative dimension", E::kGgufTensorDimension,
       [](Draft& d, Random& r) { any_tensor(d, r).dims[below(r, 2)] = -(1 + below(r, 99)); }},
      {"huge dimension", E::kGgufTensorDimension,
       [](Draft& d, Random& r) { any_tensor(d, r).dims[below(r, 2)] = (std::uint64_t{1} << 48) + 1 + below(r, 99); }},
      {"product of dimensions passes 63 bits", E::kGgufTensorSize,
       [](Draft& d, Random& r) {
         const std::uint64_t side = std::uint64_t{1} << (32 + below(r, 16));
         any_tensor(d, r).dims = {side, side};
       }},
      {"product that passes 63 bits hidden by a zero", E::kGgufTensorSize,
       [](Draft& d, Random& r) {
         const std::uint64_t side = std::uint64_t{1} << (32 + below(r, 16));
         any_tensor(d, r).dims = {side, 0, side};
       }},
      {"bytes pass 63 bits", E::kGgufTensorSize,
       [](Draft& d, Random& r) {
         Draft::Tensor& tensor = any_tensor(d, r);
         tensor.dims = {std::uint64_t{1} << 31, std::uint64_t{1} << 31};
         tensor.type = 0;
       }},
      {"unknown tensor type", E::kGgufTensorType,
       [](Draft& d, Random& r) { any_tensor(d, r).type = 42 + static_cast<std::uint32_t>(below(r, 1u << 31)); }},
      {"tensor type that is not supported", E::kGgufTensorType,
       [](Draft& d, Random& r) {
         constexpr std::uint32_t types[] = {4, 9, 15, 16, 19, 24, 28, 31, 34, 40, 41};
         any_tensor(d, r).type = types[below(r, 11)];
       }},
      {"rows that cut a block", E::kGgufTensorBlock,
       [](Draft& d, Random& r) {
         Draft::Tensor& tensor = any_tensor(d, r);
         tensor.type = 3;
         tensor.dims[0] = 32 * (1 + below(r, 5)) + 1 + below(r, 31);
       }},
      {"unaligned offset", E::kGgufTensorOffset,
       [](Draft& d, Random& r) { any_tensor(d, r).offset = 1 + below(r, 31); }},
      {"offset beyond the file", E::kGgufTensorRange,
       [](Draft& d, Random& r) { any_tensor(d, r).offset = (std::uint64_t{1} << (20 + below(r, 20))); }},
      {"offset that passes 64 bits", E::kGgufTensorRange,
       [](Draft& d, Random& r) { any_tensor(d, r).offset = 0 - 32 * (1 + below(r, 9)); }},
      {"file ends in the tensor bytes", E::kGgufTensorRange,
       [](Draft& d, Random& r) { d.missing_bytes = 1 + below(r, d.tensors.back().data_bytes); }},
      {"file ends before the tensor bytes", E::kGgufTensorRange,
       [](Draft& d, Random& r) {
         d.alignment = 1 << 16;
         add_key(d, r, u32_key("general.alignment", 1 << 16));
         d.tensors.resize(1);
         d.missing_bytes = d.tensors[0].data_bytes + 1 + below(r, 50000);
       }},
      {"tensors that overlap", E::kGgufTensorOverlap,
       [](Draft& d, Random&) {
         d.tensors[0].offset = 0;
         d.tensors[1].offset = 0;
       }},
      {"tensors that overlap by their last bytes", E::kGgufTensorOverlap,
       [](Draft& d, Random& r) {
         d.tensors.push_back({.name = "a", .dims = {25}, .type = 0, .data_bytes = 100});
         d.tensors.push_back({.name = "b", .dims = {1 + below(r, 9)}, .type = 0, .data_bytes = 96});
         d.tensors[d.tensors.size() - 2].dims = {33};
       }},
  };
}

void expect_printable(const std::string& message) {
  for (const char c : message) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << message;
}

Result<GgufHeader> read(const std::string& bytes) {
  return read_gguf(MemorySource("test.gguf", std::as_bytes(std::span(bytes))));
}

int check_kinds(const std::vector<Kind>& kinds) {
  for (const Kind& kind : kinds) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      Draft draft = random_draft(random);
      const auto good = read(draft.bytes());
      EXPECT_TRUE(good.ok()) << kind.name << " starts from a bad file: " << good.error().message;
      kind.spoil(draft, random);
      const auto bad = read(draft.bytes());
      if (bad.ok()) {
        ADD_FAILURE() << kind.name << ", seed " << seed << ": was accepted";
        continue;
      }
      EXPECT_EQ(static_cast<int>(bad.error().code), static_cast<int>(kind.code))
          << kind.name << ", seed " << seed << ": " << bad.error().message;
      EXPECT_TRUE(bad.error().message.starts_with("test.gguf: ")) << bad.error().message;
      expect_printable(bad.error().message);
    }
  }
  return static_cast<int>(kinds.size());
}

TEST(GgufMalformed, EveryKindHasItsOwnError) {
  const int kinds = check_kinds(header_kinds()) + check_kinds(key_kinds()) + check_kinds(tensor_kinds());
  EXPECT_GE(kinds, 55);
}

TEST(GgufMalformed, SentencesNameTheUnsupportedType) {
  Random random(5);
  Draft draft = random_draft(random);
  draft.tensors[1].type = 16;
  const std::string message = read(draft.bytes()).error().message;
  EXPECT_NE(message.find("tensor 'blk.1.weight'"), std::string::npos) << message;
  EXPECT_NE(message.find("IQ2_XXS (number 16) is not supported; supported are f32 f16"), std::string::npos) << message;
}

TEST(GgufMalformed, SentencesForOldAndForeignFiles) {
  EXPECT_EQ(read("").error().code, ErrorCode::kFileEmpty);
  Draft draft;
  draft.version = 1;
  EXPECT_EQ(read(draft.bytes()).error().message,
            "test.gguf: the header at offset 8: it has version 1, of August 2023, with 32-bit counts; convert it to "
            "version 3");
  draft.version = 3u << 24;
  EXPECT_EQ(read(draft.bytes()).error().message,
            "test.gguf: the header at offset 8: it is written in big-endian byte order; only little-endian files are "
            "read");
}

// Files on the right side of each rule.
TEST(GgufMalformed, GoodControlsStillLoad) {
  using T = GgufType;
  const std::vector<std::pair<const char*, std::function<void(Draft&, Random&)>>> controls = {
      {"as it is", [](Draft&, Random&) {}},
      {"version 2", [](Draft& d, Random&) { d.version = 2; }},
      {"nothing at all", [](Draft& d, Random&) { d.keys.clear(), d.tensors.clear(); }},
      {"no keys", [](Draft& d, Random&) { d.keys.clear(); }},
      {"no tensors", [](Draft& d, Random&) { d.tensors.clear(); }},
      {"one of one", [](Draft& d, Random& r) { add_key(d, r, u32_key("split.count", 1)); }},
      {"key name of 65535 bytes", [](Draft& d, Random& r) { any_key(d, r).name.assign(65535, 'k'); }},
      {"key name in Unicode", [](Draft& d, Random& r) { any_key(d, r).name += "ключ€😀"; }},
      {"tensor name of 1024 bytes", [](Draft& d, Random& r) { any_tensor(d, r).name.assign(1024, 't'); }},
      {"alignment 8", [](Draft& d, Random& r) { d.alignment = 8, add_key(d, r, u32_key("general.alignment", 8)); }},
      {"alignment 1 MiB",
       [](Draft& d, Random& r) {
         d.alignment = 1 << 20, d.tensors.resize(1), add_key(d, r, u32_key("general.alignment", 1 << 20));
       }},
      {"arrays two deep",
       [](Draft& d, Random& r) {
         const GgufBytes inner = GgufBytes().put_raw(array_value(T::kU8, 1, GgufBytes().put_raw("x")));
         set_value(d, r, T::kArray, array_value(T::kArray, 1, inner));
       }},
      {"empty arrays", [](Draft& d, Random& r) { set_value(d, r, T::kArray, array_value(T::kF64, 0, {})); }},
      {"a dimension of 0", [](Draft& d, Random& r) { any_tensor(d, r).dims[below(r, 2)] = 0; }},
      {"four dimensions",
       [](Draft& d, Random&) {
         d.tensors.push_back({.name = "r4", .dims = {7, 5, 3, 2}, .data_bytes = 840});
       }},
      {"tensors in another order than their bytes",
       [](Draft& d, Random&) {
         d.tensors.push_back({.name = "a", .dims = {7}, .data_bytes = 28});
         d.tensors.push_back({.name = "b", .dims = {5}, .data_bytes = 20});
         std::uint64_t end = 0;
         for (const auto& t : d.tensors) end = (end + 31) / 32 * 32 + t.data_bytes;
         const std::uint64_t last = (end - 20) / 32 * 32;
         d.tensors[d.tensors.size() - 2].offset = last;
         d.tensors.back().offset = last - 32;
         d.tensors[d.tensors.size() - 2].dims = {5};
       }},
      {"bytes after the last tensor", [](Draft& d, Random&) { d.tensors.back().dims[1] -= 1; }},
  };
  ASSERT_GE(controls.size(), 12u);
  for (const auto& [name, change] : controls) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      Draft draft = random_draft(random);
      change(draft, random);
      const auto header = read(draft.bytes());
      EXPECT_TRUE(header.ok()) << name << ", seed " << seed << ": " << header.error().message;
    }
  }
}

// CASES H5: the smallest files with a huge count, each rejected at once and without a large allocation.
TEST(GgufMalformed, HugeCountsInTinyFiles) {
  using T = GgufType;
  const auto with_value = [](T type, const std::string& value) {
    Draft draft;
    draft.keys.push_back({"k", static_cast<std::uint32_t>(type), value});
    return draft.bytes();
  };
  for (const int shift : {63, 62, 61, 60, 32, 31, 24}) {
    const std::uint64_t count = std::uint64_t{1} << shift;
    Draft keys{.num_keys = count, .keys = {}, .tensors = {}};
    Draft tensors{.num_tensors = count, .keys = {}, .tensors = {}};
    const GgufBytes nested = GgufBytes().put_raw(array_value(T::kU64, count, {}));
    const std::string files[] = {keys.bytes(),
                                 tensors.bytes(),
                                 with_value(T::kString, GgufBytes().put(count).text()),
                                 with_value(T::kArray, array_value(T::kU8, count, {})),
                                 with_value(T::kArray, array_value(T::kF64, count, {})),
                                 with_value(T::kArray, array_value(T::kString, count, {})),
                                 with_value(T::kArray, array_value(T::kArray, count, {})),
                                 with_value(T::kArray, array_value(T::kArray, 1, nested))};
    for (const std::string& file : files) {
      const fixtures::AllocationMeter meter;
      const std::clock_t start = std::clock();  // of this process: the machine may be busy
      EXPECT_FALSE(read(file).ok());
      const std::clock_t taken = std::clock() - start;
      EXPECT_LT(meter.peak_bytes(), std::size_t{1} << 20);
      EXPECT_LT(taken, CLOCKS_PER_SEC / 100);
    }
  }
}

TEST(AllocationMeter, SeesAnAllocation) {
  const fixtures::AllocationMeter meter;
  { std::vector<char> block(20 << 20); }
  EXPECT_GE(meter.peak_bytes(), std::size_t{20} << 20);
}

}  // namespace
}  // namespace pagoda::io
