#pragma once

#include <span>
#include <string>

#include "pagoda/session.h"

namespace pagoda::api {

/// [{"role": ..., "content": ...}, ...]
std::string messages_to_json(std::span<const Message> messages);

}  // namespace pagoda::api
