// Where work is queued. The host's stream runs it on a thread pool at once, or records it into a graph to be replayed:
// the same two ways a GPU's stream has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"

namespace pagoda::device {

/// A part of a launch: units [begin, end), run by one worker. What units are is the kernel's business.
struct HostRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int worker = 0;
};

/// A host kernel: a plain function over one plain struct of parameters, as on a GPU.
template <class Params>
using HostKernel = void (*)(const Params&, HostRange);

class Stream {
 public:
  virtual ~Stream() = default;
};

/// Launches of host kernels, recorded in order; the parameters are copied, the memory they point to is not.
class HostGraph {
 public:
  std::size_t num_nodes() const { return nodes_.size(); }

 private:
  friend class HostStream;
  struct Node {
    void (*call)(void (*kernel)(), const void* params, HostRange);
    void (*kernel)();
    std::int64_t units;
    std::int64_t grain;
    std::size_t params_offset;
  };
  std::vector<Node> nodes_;
  std::vector<std::max_align_t> params_;
};

class HostStream final : public Stream {
 public:
  explicit HostStream(ThreadPool& pool) : pool_(pool) {}

  int num_workers() const { return pool_.num_threads(); }

  /// Splits units [0, units) over the workers in pieces of `grain`, handed out in order to whoever is free, and returns
  /// when all ran. One piece or less runs on the calling thread alone, without waking anyone. While capturing, records.
  template <class Params>
  void launch(HostKernel<Params> kernel, const Params& params, std::int64_t units, std::int64_t grain = 1) {
    static_assert(std::is_trivially_copyable_v<Params> && alignof(Params) <= alignof(std::max_align_t));
    const auto call = [](void (*erased)(), const void* bytes, HostRange range) {
      reinterpret_cast<HostKernel<Params>>(erased)(*static_cast<const Params*>(bytes), range);
    };
    const auto erased = reinterpret_cast<void (*)()>(kernel);
    if (graph_ != nullptr) {
      record(call, erased, &params, sizeof params, units, grain);
    } else {
      run(call, erased, &params, units, grain);
    }
  }

  /// Until `end_capture`, launches are recorded into `graph` and not run.
  void begin_capture(HostGraph& graph);
  void end_capture();

  /// Runs what a graph recorded, in order.
  void replay(const HostGraph& graph);

 private:
  using Call = void (*)(void (*kernel)(), const void* params, HostRange);
  void run(Call call, void (*kernel)(), const void* params, std::int64_t units, std::int64_t grain);
  void record(Call call, void (*kernel)(), const void* params, std::size_t bytes, std::int64_t units,
              std::int64_t grain);

  ThreadPool& pool_;
  HostGraph* graph_ = nullptr;
};

/// The host stream behind a stream: host kernels are only ever given one.
HostStream& host(Stream& stream);

}  // namespace pagoda::device
