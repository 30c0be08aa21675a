// The messages of a chat.
#pragma once

#include <string>

#include "server/json/json.h"

namespace pagoda::server {

/// The messages for the template: `developer` is system, a list of text parts is one text with a line break between two
/// parts, members that mean nothing (null, empty lists) are left out. Error: kInvalidArgument with the place.
Result<std::string> read_messages(const Json& messages);

/// JSON Schema of what `read_messages` takes.
std::string messages_schema();

}  // namespace pagoda::server
