#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace pagoda::text {
namespace {

std::uint64_t edge(std::int32_t node, unsigned char byte) { return static_cast<std::uint64_t>(node) << 8 | byte; }

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (std::size_t i = 0; i < stops_.size(); ++i) add(static_cast<std::int32_t>(i));
  link();
}

void StopStrings::add(std::int32_t stop) {
  if (stops_[stop].empty()) return;
  std::int32_t node = 0;
  for (const char c : stops_[stop]) {
    const auto found = edges_.try_emplace(edge(node, static_cast<unsigned char>(c)), std::ssize(nodes_)).first;
    if (found->second == std::ssize(nodes_)) nodes_.push_back({.depth = nodes_[node].depth + 1});
    node = found->second;
  }
  if (nodes_[node].stop < 0) nodes_[node].stop = stop;
}

/// Every fallback is shorter than its node, so nodes are linked in the order of their depth.
void StopStrings::link() {
  struct Edge {
    std::int32_t from, to;
    unsigned char byte;
  };
  std::vector<Edge> in_order;
  for (const auto& [key, to] : edges_) {
    in_order.push_back({static_cast<std::int32_t>(key >> 8), to, static_cast<unsigned char>(key & 0xFF)});
  }
  std::sort(in_order.begin(), in_order.end(),
            [&](const Edge& a, const Edge& b) { return nodes_[a.to].depth < nodes_[b.to].depth; });
  for (const Edge& e : in_order) {
    Node& node = nodes_[e.to];
    node.fallback = e.from == 0 ? 0 : next(nodes_[e.from].fallback, e.byte);
    if (node.stop < 0) node.stop = nodes_[node.fallback].stop;
  }
}

std::int32_t StopStrings::next(std::int32_t node, unsigned char byte) const {
  while (true) {
    if (const auto found = edges_.find(edge(node, byte)); found != edges_.end()) return found->second;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_.has_value()) return {};
  const std::size_t known = held_.size();
  held_ += text;
  for (std::size_t i = known; i < held_.size(); ++i) {
    node_ = stops_->next(node_, static_cast<unsigned char>(held_[i]));
    const StopStrings::Node& node = stops_->nodes_[node_];
    const auto end = static_cast<std::int64_t>(i) + 1;
    if (node.stop >= 0) {
      const std::int64_t begin = end - std::ssize(stops_->stops_[node.stop]);
      if (!found_begin_.has_value() || begin < *found_begin_) {
        found_begin_ = begin;
        found_stop_ = node.stop;
      }
    }
    // Whatever may still match begins at end - depth or later.
    if (found_begin_.has_value() && end - node.depth >= *found_begin_) return settle();
  }
  const std::size_t shown = held_.size() - static_cast<std::size_t>(stops_->nodes_[node_].depth);
  std::string out = held_.substr(0, shown);
  held_.erase(0, shown);
  if (found_begin_.has_value()) *found_begin_ -= static_cast<std::int64_t>(shown);
  return out;
}

std::string StopMatcher::finish() {
  if (matched_.has_value()) return {};
  if (found_begin_.has_value()) return settle();
  node_ = 0;
  return std::exchange(held_, {});
}

std::string StopMatcher::settle() {
  matched_ = stops_->stops_[found_stop_];
  held_.resize(static_cast<std::size_t>(*found_begin_));
  return std::exchange(held_, {});
}

}  // namespace pagoda::text
