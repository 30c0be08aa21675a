// What a model file holds and how it would run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pagoda/library.h"
#include "pagoda/model.h"

namespace pagoda {

struct InspectOptions {
  ModelOptions model{};  ///< `weights` is of no account: none are read
  bool plan = false;     ///< make the plan too
  std::string caps{};    ///< with device "cuda": plan for this GPU, present or not: "h200", "a100", "l4" …
};

struct TensorInfo {
  std::string name{};
  std::string format{};
  std::vector<std::int64_t> shape{};  ///< rows first
  std::uint64_t offset = 0;           ///< in the file
  std::uint64_t bytes = 0;
};

/// One name and its value as text, in the order in which a reader wants them.
struct Fact {
  std::string name{};
  std::string value{};
};

/// Stages of the plan with one choice: which kernel serves them, and why.
struct PlanRow {
  std::string stage{};   ///< "ffn_in"
  std::string layers{};  ///< "0-29"; empty: of no layer
  std::string candidate{};
  std::string layout{};  ///< of its weights or cache pages
  std::string reason{};
};

struct Inspection {
  ModelInfo info{};
  std::vector<Fact> metadata{};  ///< the file's own keys; long arrays are shortened to their type and length
  std::vector<Fact> spec{};      ///< what Pagoda understands the model to be
  std::vector<TensorInfo> tensors{};
  std::vector<PlanRow> plan{};  ///< empty unless asked for, as is `memory`
  std::vector<Fact> memory{};   ///< what the plan takes, and how weights are laid out
};

/// Reads the header only. Errors: those of Model::open.
Result<Inspection> inspect(const Library& library, const std::string& path, const InspectOptions& options = {});

/// Which formats and operations run on which devices: one row for each operation and format.
struct SupportRow {
  std::string operation{};
  std::string format{};  ///< empty where weights have no part
  std::string device{};
  std::string candidates{};  ///< in order of preference
};
std::vector<SupportRow> support(const Library& library);

}  // namespace pagoda
