// What long work reports while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace pagoda {

/// What is being done now.
enum class ProgressStage : std::uint8_t { kReadHeader, kReadWeights, kPrepare, kWarmUp, kQuantize };

constexpr std::string_view to_string(ProgressStage stage) {
  constexpr std::string_view names[] = {"reading the header", "reading weights", "preparing", "warming up",
                                        "quantising"};
  return names[static_cast<std::uint8_t>(stage)];
}

/// How far the stage is: `done` of `total`, in bytes for kReadWeights and kQuantize and in items elsewhere. `total` is
/// 0 if unknown.
struct Progress {
  ProgressStage stage = ProgressStage::kReadHeader;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

/// Called on the thread that does the work, or on its workers one at a time; must return soon.
using ProgressSink = std::function<void(const Progress&)>;

}  // namespace pagoda
