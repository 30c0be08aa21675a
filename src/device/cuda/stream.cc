#include "device/cuda/stream.h"

namespace pagoda::device::cuda {

Event::Event(ContextPtr context, bool timing) : context_(std::move(context)) {
  context_->driver().check(context_->api().event_create(&handle_, timing ? 0 : kEventDisableTiming), "making an event");
}

Event::~Event() { context_->api().event_destroy(handle_); }

void Event::record(const CudaStream& stream) {
  context_->driver().check(context_->api().event_record(handle_, stream.handle()), "recording an event");
}

bool Event::done() const {
  const Result32 result = context_->api().event_query(handle_);
  if (result == kNotReady) return false;
  context_->driver().check(result, "asking for an event");
  return true;
}

void Event::synchronize() const {
  context_->driver().check(context_->api().event_synchronize(handle_), "waiting for the device");
}

float Event::elapsed_ms_since(const Event& begin) const {
  float milliseconds = 0;
  context_->driver().check(context_->api().event_elapsed_ms(&milliseconds, begin.handle_, handle_), "timing");
  return milliseconds;
}

CudaStream::CudaStream(ContextPtr context) : context_(std::move(context)) {
  context_->driver().check(context_->api().stream_create(&handle_, kStreamNonBlocking), "making a stream");
}

CudaStream::~CudaStream() { context_->api().stream_destroy(handle_); }

void CudaStream::synchronize() const {
  context_->driver().check(context_->api().stream_synchronize(handle_), "waiting for the device");
}

void CudaStream::wait_for(const Event& event) {
  context_->driver().check(context_->api().stream_wait_event(handle_, event.handle(), 0), "waiting for an event");
}

GraphNode CudaStream::last_captured_node() const {
  std::int32_t status = 0;
  std::uint64_t id = 0;
  GraphHandle graph = nullptr;
  const GraphNode* dependencies = nullptr;
  const void* edges = nullptr;
  std::size_t count = 0;
  context_->driver().check(context_->api().capture_info(handle_, &status, &id, &graph, &dependencies, &edges, &count),
                           "asking a capture");
  PAGODA_CHECK(status == kCaptureActive && count == 1, "status {} dependencies {}", status, count);
  return dependencies[0];
}

CudaStream& cuda(Stream& stream) {
  auto* own = dynamic_cast<CudaStream*>(&stream);
  PAGODA_CHECK(own != nullptr, "a CUDA kernel was given another device's stream");
  return *own;
}

}  // namespace pagoda::device::cuda
