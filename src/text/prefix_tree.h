// Texts to look for at a place of another text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/flat_map.h"

namespace pagoda::text {

/// A prefix tree over bytes.
class PrefixTree {
 public:
  bool empty() const { return token_.size() == 1; }

  /// Adds `text`, which is not empty. Of equal texts the last one counts.
  void add(std::string_view text, std::int32_t id) {
    starts_[static_cast<unsigned char>(text[0])] = true;
    std::int32_t node = 0;
    for (const char c : text) {
      const auto fresh = static_cast<std::int32_t>(token_.size());
      if (edges_.insert(edge(node, c), fresh)) token_.push_back(-1);
      node = *edges_.find(edge(node, c));
    }
    token_[static_cast<std::size_t>(node)] = id;
  }

  /// Calls `visit(id, end)` for each text that lies at text[begin, end), the shortest first.
  template <class Visit>
  void for_each_at(std::string_view text, std::size_t begin, const Visit& visit) const {
    if (!starts_[static_cast<unsigned char>(text[begin])]) return;
    std::int32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const std::int32_t* next = edges_.find(edge(node, text[at]));
      if (next == nullptr) return;
      node = *next;
      const std::int32_t id = token_[static_cast<std::size_t>(node)];
      if (id >= 0) visit(id, at + 1);
    }
  }

 private:
  static std::uint64_t edge(std::int32_t node, char c) {
    return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(c);
  }

  std::array<bool, 256> starts_{};
  FlatMap<std::int32_t> edges_;          ///< (node, byte) to node
  std::vector<std::int32_t> token_{-1};  ///< of each node, -1: none
};

}  // namespace pagoda::text
