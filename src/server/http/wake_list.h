// Connections whose answers have something new, told by other threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace pagoda::server::http {

/// A place on a WakeList. `woken` is only called, and only changed, on the connections' thread.
struct WakeNode {
  std::function<void()> woken{};

  std::atomic<bool> listed{false};
  std::shared_ptr<WakeNode> self{};  ///< while it is on the list
  WakeNode* next = nullptr;
};

/// A stack without locks: an engine's step that has news for hundreds of clients announces them with one post.
class WakeList {
 public:
  /// `announce` is called by whoever makes the list not empty; it has `drain` called on the connections' thread.
  explicit WakeList(std::function<void()> announce) : announce_(std::move(announce)) {}

  /// From any thread; does not block.
  void wake(const std::shared_ptr<WakeNode>& node) {
    if (node->listed.exchange(true, std::memory_order_acq_rel)) return;
    node->self = node;
    // Once it is on the list the node belongs to who drains it, and to who lists it next.
    WakeNode* below = first_.load(std::memory_order_relaxed);
    do {
      node->next = below;
    } while (!first_.compare_exchange_weak(below, node.get(), std::memory_order_acq_rel));
    if (below == nullptr) announce_();
  }

  void drain() {
    WakeNode* node = first_.exchange(nullptr, std::memory_order_acq_rel);
    while (node != nullptr) {
      const std::shared_ptr<WakeNode> keep = std::move(node->self);
      node = node->next;
      keep->listed.store(false, std::memory_order_release);  // what comes from here on lists it again
      if (keep->woken) keep->woken();
    }
  }

 private:
  std::function<void()> announce_;
  std::atomic<WakeNode*> first_{nullptr};
};

}  // namespace pagoda::server::http
