#include "io/dummy_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/check.h"

namespace pagoda::io {
namespace {

constexpr std::int64_t kPatternBytes = std::int64_t{1} << 20;
constexpr float kLargest = 0.25f;
constexpr float kLeastLargest = 0.01f;

std::int64_t prime_up_to(std::int64_t number) {
  const auto is_prime = [](std::int64_t n) {
    for (std::int64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return n > 1;
  };
  while (!is_prime(number)) --number;
  return number;
}

bool is_sane(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) {
    if (!(std::abs(value) <= kLargest)) return false;  // nor NaN
    largest = std::max(largest, std::abs(value));
  }
  if (largest < kLeastLargest) return false;
  // An offset alone is no weight: the elements of a block have to differ.
  const auto [low, high] = std::ranges::minmax(values);
  return values.size() == 1 || high - low >= kLeastLargest;
}

std::vector<std::byte> floats_near_one() {
  std::mt19937_64 random(2);
  std::vector<float> values(static_cast<std::size_t>(prime_up_to(4096)));
  for (float& value : values) value = 1 + (static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f) / 8;
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

Status RepeatedBytes::read(std::uint64_t offset, std::span<std::byte> into) const {
  PAGODA_CHECK(offset <= bytes_ && into.size() <= bytes_ - offset, "offset {} bytes {} size {}", offset, into.size(),
               bytes_);
  std::size_t at = offset % pattern_.size();
  while (!into.empty()) {
    const std::size_t take = std::min(into.size(), pattern_.size() - at);
    std::memcpy(into.data(), pattern_.data() + at, take);
    into = into.subspan(take);
    at = 0;
  }
  return Ok{};
}

std::vector<std::byte> random_blocks(const quant::Format& format, bool one_scale) {
  PAGODA_CHECK(!one_scale || (format.coding != nullptr && format.coding->scale == quant::ScaleType::kF32), "{}",
               format.name);
  const auto block_bytes = static_cast<std::size_t>(format.block_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(prime_up_to(kPatternBytes / format.block_bytes)) * block_bytes);
  std::vector<float> values(static_cast<std::size_t>(format.block_elements));
  std::mt19937_64 random(1);
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    bool sane = false;
    do {  // any bytes may be a block; few of them are weights
      for (std::size_t i = 0; i < block_bytes; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + at + i, &word, std::min(sizeof word, block_bytes - i));
      }
      if (one_scale && at > 0) std::memcpy(bytes.data() + at, bytes.data(), sizeof(float));
      // Most blocks have a scale of another size, which one element shows.
      format.decode_row(bytes.data() + at, 1, values.data());
      if (!(std::abs(values[0]) <= kLargest)) continue;
      format.decode_row(bytes.data() + at, format.block_elements, values.data());
      sane = is_sane(values);
    } while (!sane);
  }
  return bytes;
}

ModelFile make_dummy_file(RawConfig config, TensorCatalog tensors) {
  struct File {
    const quant::Format* format = nullptr;
    std::uint64_t bytes = 0;
    bool one_scale = false;
  };
  std::vector<File> wanted(1);
  for (const TensorEntry& entry : tensors.entries()) {
    const auto index = static_cast<std::size_t>(entry.file_index);
    if (index >= wanted.size()) wanted.resize(index + 1);
    File& file = wanted[index];
    PAGODA_CHECK(file.format == nullptr || file.format == entry.format, "{}", entry.name);
    file.format = entry.format;
    file.bytes = std::max(file.bytes, entry.offset + entry.bytes);
    file.one_scale |= entry.row_scales;
  }
  std::vector<std::unique_ptr<ByteSource>> files;
  files.push_back(std::make_unique<RepeatedBytes>("dummy vectors", floats_near_one(), wanted.front().bytes));
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    files.push_back(std::make_unique<RepeatedBytes>(pagoda::format("dummy matrices of {}", wanted[i].format->name),
                                                    random_blocks(*wanted[i].format, wanted[i].one_scale),
                                                    wanted[i].bytes));
  }
  return ModelFile("a configuration with dummy weights", std::move(config), std::move(tensors), std::move(files));
}

}  // namespace pagoda::io
