#include "api/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/thread_pool.h"

namespace pagoda::api {
namespace {

// 128 MiB a thread, so that no cache holds it; of many threads, whose caches are large together, 2 GiB in all.
constexpr std::size_t kMostWordsPerThread = std::size_t{16} << 20;
constexpr std::size_t kMostWords = std::size_t{256} << 20;
constexpr int kRuns = 5;

struct Reading {
  std::vector<std::uint64_t> words;
  std::size_t share;  // of a thread: a multiple of 8
  std::atomic<std::uint64_t> sum{0};
};

/// Eight sums at once, so that the adder is never what is waited for.
void read_share(void* context, int worker) {
  Reading& reading = *static_cast<Reading*>(context);
  const std::uint64_t* words = reading.words.data() + static_cast<std::size_t>(worker) * reading.share;
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < reading.share; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  reading.sum.fetch_add(std::accumulate(sums, sums + 8, std::uint64_t{0}));
}

}  // namespace

double measure_read_bandwidth(int threads) {
  ThreadPool pool(threads);
  const auto count = static_cast<std::size_t>(threads);
  Reading reading{.words = {}, .share = std::min(kMostWordsPerThread, kMostWords / count / 8 * 8)};
  reading.words.assign(count * reading.share, 1);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pool.run(read_share, &reading);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(reading.words.size() * sizeof(std::uint64_t)) / seconds.count());
  }
  return best;
}

Result<double> measure_copy_bandwidth(device::cuda::CudaDevice& device) {
  using namespace device::cuda;
  constexpr std::int64_t kBytes = std::int64_t{512} << 20;
  const device::Memory from = PAGODA_TRY(device.allocate(kBytes, "measuring the memory"));
  const device::Memory to = PAGODA_TRY(device.allocate(kBytes, "measuring the memory"));
  const Context& context = *device.context();
  context.make_current();
  CudaStream stream(device.context());
  Event begin(device.context(), true), end(device.context(), true);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    begin.record(stream);
    context.driver().check(
        context.api().copy_on_device_async(reinterpret_cast<DeviceAddress>(to.data()),
                                           reinterpret_cast<DeviceAddress>(from.data()), kBytes, stream.handle()),
        "copying on the device");
    end.record(stream);
    end.synchronize();
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / (static_cast<double>(end.elapsed_ms_since(begin)) / 1e3));
  }
  return best;
}

}  // namespace pagoda::api
