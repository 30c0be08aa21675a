// Kernels made before they are needed.
#pragma once

#include <cstdint>
#include <string>

#include "pagoda/library.h"
#include "pagoda/model.h"

namespace pagoda {

struct WarmOptions {
  /// Every field that changes a plan counts. `device` is a GPU, "auto" the first one.
  ModelOptions model{};
  /// Make kernels for this GPU, present or not: "h200", "a100", "l4" …; NVRTC needs none.
  std::string caps{};
};

/// Where each kernel came from; the counts add up to all of them.
struct Warmed {
  std::string gpu{};           ///< its own name
  std::string architecture{};  ///< "sm_90"
  std::string folder{};        ///< where kernels are kept; empty if nowhere
  std::int64_t packed = 0;     ///< travel with the program
  std::int64_t kept = 0;       ///< were in the folder
  std::int64_t compiled = 0;   ///< now, and kept
  double seconds = 0;
};

/// Sees to it that a model starts on a GPU without compiling anything. `path` is what Model::open takes, or a
/// config.json, whose weights are then of the format `dummy_weights` or bf16; empty: all models that Pagoda has
/// configurations and sizes of. Errors: those of Model::open for file and options; kDeviceMissing if there is no such
/// GPU, or no NVRTC for what is neither packed nor kept; kInvalidArgument for the name of a GPU that is not known;
/// kIoFailed if what would be compiled cannot be kept.
Result<Warmed> warm(const Library& library, const std::string& path, const WarmOptions& options = {});

}  // namespace pagoda
