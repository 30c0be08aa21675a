// What an open model takes of its device's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pagoda {

/// The memory of one open model. All of it is taken before the model is ready; nothing grows afterwards.
struct ModelMemory {
  std::string path{};
  std::string device{};           ///< "cpu", "reference", "cuda:0"
  std::int64_t weight_bytes = 0;  ///< as they lie in memory, packed
  std::int64_t cache_bytes = 0;   ///< keys and values; on a host they become real as they are first written
  std::int64_t workspace_bytes = 0;
  std::int64_t graph_bytes = 0;   ///< captured steps, and what the device loaded to run them
  std::int64_t free_bytes = 0;    ///< of the device, once the model was ready
  std::int64_t device_bytes = 0;  ///< all the device has
  std::int64_t context = 0;       ///< tokens of one sequence at most
  std::int64_t cache_tokens = 0;  ///< tokens that the cache holds, over all sequences
  std::string cache_reason{};     ///< what set the cache's size, in words
};

/// The ledger in lines: weights, cache (and how many tokens and whole contexts it holds), workspace, graphs, free.
std::vector<std::string> ledger(const ModelMemory& memory);

}  // namespace pagoda
