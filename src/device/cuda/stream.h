#pragma once

#include "device/cuda/context.h"
#include "device/stream.h"

namespace pagoda::device::cuda {

class CudaStream;

/// A point in a stream's work.
class Event {
 public:
  /// `timing` false makes it cheaper to record.
  explicit Event(ContextPtr context, bool timing = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const CudaStream& stream);
  bool done() const;         ///< never blocks
  void synchronize() const;  ///< blocks until the work before it is done
  /// Milliseconds between two events of which both are done; both were made with timing.
  float elapsed_ms_since(const Event& begin) const;

  EventHandle handle() const { return handle_; }

 private:
  ContextPtr context_;
  EventHandle handle_ = nullptr;
};

/// An explicit stream that never synchronises with the default one.
class CudaStream final : public Stream {
 public:
  explicit CudaStream(ContextPtr context);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void synchronize() const;
  void wait_for(const Event& event);

  StreamHandle handle() const { return handle_; }
  const Context& context() const { return *context_; }
  const ContextPtr& context_ptr() const { return context_; }

  /// Whether launches are recorded (see GraphCapture) and not run.
  bool capturing() const { return capturing_; }
  void set_capturing(bool capturing) { capturing_ = capturing; }
  /// Whether launches that may start before the work in front of them is done do so. They do, unless told otherwise.
  bool programmatic() const { return programmatic_; }
  void set_programmatic(bool programmatic) { programmatic_ = programmatic; }
  /// The node of the launch recorded last.
  GraphNode last_captured_node() const;

 private:
  ContextPtr context_;
  StreamHandle handle_ = nullptr;
  bool capturing_ = false;
  bool programmatic_ = true;
};

/// The CUDA stream behind a stream: CUDA kernels are only ever given one.
CudaStream& cuda(Stream& stream);

}  // namespace pagoda::device::cuda
