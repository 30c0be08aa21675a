// All JSON that the program reads and prints. What it prints is valid UTF-8 on one line; numbers that are not finite
// are null.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pagoda/pagoda.h"

namespace pagoda::apps {

std::string to_json(std::span<const std::int32_t> ids);
std::string to_json(const BenchRow& row);
std::string to_json(const Score& score);
std::string to_json(const Warmed& warmed);
std::string to_json(const Quantized& quantized);
std::string to_json(const Inspection& inspection, std::span<const SupportRow> support, bool tensors);
std::string support_to_json(std::span<const SupportRow> support);

/// The object that `run --json` prints.
std::string run_to_json(const ModelInfo& info, const Answer& answer);

/// [{"role": "system", ...}, {"role": "user", ...}]; an empty system message is left out.
std::string messages_json(const std::string& system, const std::string& user);

/// A JSON list of whole numbers that fit in 32 bits. Error: kInvalidArgument.
Result<std::vector<std::int32_t>> ids_from_json(const std::string& text);

}  // namespace pagoda::apps
