#include "device/stream.h"

#include <algorithm>
#include <atomic>

namespace pagoda::device {
namespace {

struct Job {
  void (*call)(void (*)(), const void*, HostRange);
  void (*kernel)();
  const void* params;
  std::int64_t units;
  std::int64_t grain;
  alignas(64) std::atomic<std::int64_t> next{0};
};

void take_pieces(void* context, int worker) {
  Job& job = *static_cast<Job*>(context);
  for (;;) {
    const std::int64_t begin = job.next.fetch_add(job.grain, std::memory_order_relaxed);
    if (begin >= job.units) return;
    job.call(job.kernel, job.params, {begin, std::min(begin + job.grain, job.units), worker});
  }
}

}  // namespace

void HostStream::run(Call call, void (*kernel)(), const void* params, std::int64_t units, std::int64_t grain) {
  PAGODA_CHECK(grain >= 1, "grain {}", grain);
  if (units <= grain || pool_.num_threads() == 1) {
    if (units > 0) call(kernel, params, {0, units, 0});
    return;
  }
  Job job{.call = call, .kernel = kernel, .params = params, .units = units, .grain = grain};
  pool_.run(take_pieces, &job);
}

void HostStream::record(Call call, void (*kernel)(), const void* params, std::size_t bytes, std::int64_t units,
                        std::int64_t grain) {
  const std::size_t offset = graph_->params_.size();
  graph_->params_.resize(offset + (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  std::memcpy(graph_->params_.data() + offset, params, bytes);
  graph_->nodes_.push_back({call, kernel, units, grain, offset});
}

void HostStream::begin_capture(HostGraph& graph) {
  PAGODA_CHECK(graph_ == nullptr, "a capture is under way");
  graph = HostGraph{};
  graph_ = &graph;
}

void HostStream::end_capture() {
  PAGODA_CHECK(graph_ != nullptr, "no capture is under way");
  graph_ = nullptr;
}

void HostStream::replay(const HostGraph& graph) {
  PAGODA_CHECK(graph_ == nullptr, "a capture is under way");
  for (const HostGraph::Node& node : graph.nodes_) {
    run(node.call, node.kernel, graph.params_.data() + node.params_offset, node.units, node.grain);
  }
}

HostStream& host(Stream& stream) {
  auto* own = dynamic_cast<HostStream*>(&stream);
  PAGODA_CHECK(own != nullptr, "a host kernel was given another device's stream");
  return *own;
}

}  // namespace pagoda::device
