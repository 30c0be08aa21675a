// A step recorded once and replayed: capture, launch, and typed updates of single kernels.
#pragma once

#include <memory>

#include "device/cuda/kernel.h"

namespace pagoda::device::cuda {

/// An instantiated graph. What its kernels point to must outlive it and never move.
class Graph {
 public:
  Graph() = default;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  void launch(CudaStream& stream) const;
  std::int64_t num_nodes() const { return num_nodes_; }

  /// Gives a captured launch of `kernel` new parameters or a new grid from the next launch on. `node` is what the
  /// launch returned while it was captured. Block shape, shared memory and kernel stay as captured; another kernel or
  /// another struct does not compile.
  template <class P>
  void update(GraphNode node, const Kernel<P>& kernel, const LaunchConfig& config, const P& params) const {
    update(node, kernel.handle(), config, &params);
  }

 private:
  friend class GraphCapture;
  void update(GraphNode node, FunctionHandle function, const LaunchConfig& config, const void* params) const;

  ContextPtr context_;
  GraphHandle graph_ = nullptr;
  GraphExecHandle exec_ = nullptr;
  std::int64_t num_nodes_ = 0;
};

/// From here to `finish`, what is launched on the stream is recorded and not run. Capture is of the thread's own kind:
/// other threads go on undisturbed. A capture that is not finished is dropped.
class GraphCapture {
 public:
  explicit GraphCapture(CudaStream& stream);
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  /// Ends the capture and makes the graph ready to launch. Throws DeviceError.
  Graph finish();

 private:
  CudaStream& stream_;
  bool open_ = true;
};

}  // namespace pagoda::device::cuda
