// A GGUF file of which every single number can be made wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fixtures/gguf_writer.h"

namespace pagoda::io {

using fixtures::GgufBytes;
using fixtures::GgufType;

struct Draft {
  struct Key {
    std::string name;
    std::uint32_t type = 0;
    std::string value;  // its bytes
    std::optional<std::uint64_t> name_length{};
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;  // the file's order: contiguous first
    std::uint32_t type = 0;
    std::uint64_t data_bytes = 0;
    std::optional<std::uint64_t> name_length{};
    std::optional<std::uint32_t> rank{};
    std::optional<std::uint64_t> offset{};
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> num_tensors{};
  std::optional<std::uint64_t> num_keys{};
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::uint64_t alignment = 32;
  std::uint64_t missing_bytes = 0;  // cut from the end

  std::string bytes() const {
    GgufBytes file;
    file.put_raw(magic).put(version);
    file.put<std::uint64_t>(num_tensors.value_or(tensors.size())).put<std::uint64_t>(num_keys.value_or(keys.size()));
    for (const Key& key : keys) {
      file.put<std::uint64_t>(key.name_length.value_or(key.name.size())).put_raw(key.name);
      file.put(key.type).put_raw(key.value);
    }
    std::uint64_t end = 0;
    for (const Tensor& tensor : tensors) {
      const std::uint64_t begin = (end + alignment - 1) / alignment * alignment;
      end = begin + tensor.data_bytes;
      file.put<std::uint64_t>(tensor.name_length.value_or(tensor.name.size())).put_raw(tensor.name);
      file.put(tensor.rank.value_or(static_cast<std::uint32_t>(tensor.dims.size())));
      for (const std::uint64_t dim : tensor.dims) file.put(dim);
      file.put(tensor.type).put(tensor.offset.value_or(begin));
    }
    file.pad_to(alignment).put_raw(std::string(end, 'w'));
    return file.text().substr(0, file.size() - missing_bytes);
  }
};

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }

inline Draft::Key u32_key(std::string name, std::uint32_t value) {
  return {std::move(name), static_cast<std::uint32_t>(GgufType::kU32), GgufBytes().put(value).text()};
}

inline Draft::Key string_key(std::string name, std::string_view value) {
  return {std::move(name), static_cast<std::uint32_t>(GgufType::kString), GgufBytes().put_string(value).text()};
}

/// The bytes of an array value: its element type, its count, then what `elements` holds.
inline std::string array_value(GgufType type, std::uint64_t count, const GgufBytes& elements) {
  return GgufBytes().put(static_cast<std::uint32_t>(type)).put(count).put_raw(elements.text()).text();
}

/// A well-formed file with a few keys and tensors, different for every state of `random`.
inline Draft random_draft(Random& random) {
  Draft draft;
  const std::uint64_t num_keys = 3 + below(random, 6);
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    const std::string name = "key." + std::to_string(i) + std::string(below(random, 20), 'k');
    switch (below(random, 4)) {
      case 0:
        draft.keys.push_back(u32_key(name, static_cast<std::uint32_t>(random())));
        break;
      case 1:
        draft.keys.push_back(string_key(name, std::string(below(random, 90), 's')));
        break;
      case 2: {
        const GgufBytes two = GgufBytes().put_string("").put_string(std::string(below(random, 40), 'e'));
        draft.keys.push_back(
            {name, static_cast<std::uint32_t>(GgufType::kArray), array_value(GgufType::kString, 2, two)});
        break;
      }
      default:
        draft.keys.push_back({name, static_cast<std::uint32_t>(GgufType::kBool), std::string(1, '\1')});
    }
  }
  constexpr struct {
    std::uint32_t type, elements, bytes;
  } kFormats[] = {{0, 1, 4}, {1, 1, 2}, {3, 32, 20}, {14, 256, 210}, {39, 32, 17}};
  const std::uint64_t num_tensors = 3 + below(random, 5);
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    const auto& format = kFormats[below(random, 5)];
    const std::uint64_t blocks = 1 + below(random, 5);
    const std::uint64_t rows = 1 + below(random, 7);
    draft.tensors.push_back({.name = "blk." + std::to_string(i) + ".weight",
                             .dims = {blocks * format.elements, rows},
                             .type = format.type,
                             .data_bytes = blocks * rows * format.bytes});
  }
  return draft;
}

}  // namespace pagoda::io
