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

constexpr std::size_t kWordsPerThread = std::size_t{16} << 20;  // 128 MiB
constexpr int kRuns = 5;

struct Reading {
  std::vector<std::uint64_t> words;
  std::atomic<std::uint64_t> sum{0};
};

/// Eight sums at once, so that the adder is never what is waited for.
void read_share(void* context, int worker) {
  Reading& reading = *static_cast<Reading*>(context);
  const std::uint64_t* words = reading.words.data() + static_cast<std::size_t>(worker) * kWordsPerThread;
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < kWordsPerThread; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  reading.sum.fetch_add(std::accumulate(sums, sums + 8, std::uint64_t{0}));
}

}  // namespace

double measure_read_bandwidth(int threads) {
  ThreadPool pool(threads);
  Reading reading;
  reading.words.assign(static_cast<std::size_t>(threads) * kWordsPerThread, 1);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pool.run(read_share, &reading);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(reading.words.size() * sizeof(std::uint64_t)) / seconds.count());
  }
  return best;
}

}  // namespace pagoda::api
