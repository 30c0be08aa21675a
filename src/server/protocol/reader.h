// From the body of a request to what is asked of the model.
#pragma once

#include <string_view>
#include <variant>

#include "server/protocol/error.h"
#include "server/protocol/fields.h"
#include "server/protocol/request.h"

namespace pagoda::server {

/// Reads bodies for one route of one model. Any thread.
class RequestReader {
 public:
  RequestReader(Route route, const ServedModel& model);

  /// Every field is checked, and one that is not known is an error: nothing is ignored.
  std::variant<ApiRequest, ApiError> read(std::string_view body) const;

  const std::vector<Field>& fields() const { return fields_; }

 private:
  Route route_;
  const ServedModel& model_;
  std::vector<Field> fields_;
};

}  // namespace pagoda::server
