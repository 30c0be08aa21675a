// The description of this API, made from the table that the reader goes by.
#pragma once

#include <cstdint>
#include <string>

#include "server/protocol/request.h"

namespace pagoda::server {

/// OpenAPI 3.1, JSON.
std::string openapi_json(const ServedModel& model, bool needs_key);

/// The model as /v1/models shows it.
std::string model_json(const ServedModel& model, std::int64_t created);

}  // namespace pagoda::server
