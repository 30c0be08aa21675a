#include "api/json.h"

#include <nlohmann/json.hpp>

namespace pagoda::api {

std::string messages_to_json(std::span<const Message> messages) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Message& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pagoda::api
