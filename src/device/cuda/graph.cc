#include "device/cuda/graph.h"

namespace pagoda::device::cuda {

Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(graph_, other.graph_);
  std::swap(exec_, other.exec_);
  std::swap(num_nodes_, other.num_nodes_);
  return *this;
}

Graph::~Graph() {
  if (exec_ != nullptr) context_->api().graph_exec_destroy(exec_);
  if (graph_ != nullptr) context_->api().graph_destroy(graph_);
}

void Graph::launch(CudaStream& stream) const {
  context_->driver().check(context_->api().graph_launch(exec_, stream.handle()), "replaying a graph");
}

void Graph::update(GraphNode node, FunctionHandle function, const LaunchConfig& config, const void* params) const {
  void* arguments[] = {const_cast<void*>(params)};
  const KernelNodeParams node_params{.function = function,
                                     .grid_x = config.grid.x,
                                     .grid_y = config.grid.y,
                                     .grid_z = config.grid.z,
                                     .block_x = config.block.x,
                                     .block_y = config.block.y,
                                     .block_z = config.block.z,
                                     .shared_bytes = config.shared_bytes,
                                     .params = arguments};
  context_->driver().check(context_->api().graph_exec_set_kernel_params(exec_, node, &node_params),
                           "updating a kernel of a graph");
}

GraphCapture::GraphCapture(CudaStream& stream) : stream_(stream) {
  const Context& context = stream.context();
  context.driver().check(context.api().begin_capture(stream.handle(), kCaptureThreadLocal), "starting a capture");
  stream.set_capturing(true);
}

GraphCapture::~GraphCapture() {
  if (!open_) return;
  stream_.set_capturing(false);
  GraphHandle graph = nullptr;
  if (stream_.context().api().end_capture(stream_.handle(), &graph) == kSuccess && graph != nullptr) {
    stream_.context().api().graph_destroy(graph);
  }
}

Graph GraphCapture::finish() {
  PAGODA_CHECK(open_, "the capture is finished");
  open_ = false;
  stream_.set_capturing(false);
  const Context& context = stream_.context();
  Graph graph;
  graph.context_ = stream_.context_ptr();
  context.driver().check(context.api().end_capture(stream_.handle(), &graph.graph_), "ending a capture");
  std::size_t count = 0;
  context.driver().check(context.api().graph_get_nodes(graph.graph_, nullptr, &count), "counting a graph's nodes");
  graph.num_nodes_ = static_cast<std::int64_t>(count);
  context.driver().check(context.api().graph_instantiate(&graph.exec_, graph.graph_, 0), "instantiating a graph");
  context.driver().check(context.api().graph_upload(graph.exec_, stream_.handle()), "uploading a graph");
  return graph;
}

}  // namespace pagoda::device::cuda
