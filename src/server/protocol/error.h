// Errors as OpenAI's API words them.
#pragma once

#include <string>
#include <string_view>

#include "pagoda/types.h"
#include "server/http/message.h"

namespace pagoda::server {

struct ApiError {
  int status = 400;
  std::string message{};
  std::string type = "invalid_request_error";
  std::string param{};  ///< empty: null
  std::string code{};   ///< empty: null
  int retry_after_s = 0;
};

/// What the engine and the readers say, for clients: no path of this machine, no bytes of the request.
ApiError api_error(const Error& error);

/// {"error": {"message", "type", "param", "code"}}
std::string to_json(const ApiError& error);

http::Response to_response(const ApiError& error);

/// 503: this request takes more memory than there is now.
http::Response no_memory();

}  // namespace pagoda::server
