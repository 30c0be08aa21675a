// The fields of how an answer is drawn and given, which completions and chats share.
#pragma once

#include <vector>

#include "server/protocol/fields.h"

namespace pagoda::server {

void add_sampling(std::vector<Field>& out, const ServedModel& served);

}  // namespace pagoda::server
