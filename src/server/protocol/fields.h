// The fields that the API takes: one table, which both the reader and /openapi.json go by.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/json/json.h"
#include "server/protocol/request.h"

namespace pagoda::server {

struct Field {
  std::string_view name;
  std::string description;
  std::string schema;  ///< JSON Schema of the values that are accepted, without null
  bool required = false;
  bool nullable = false;  ///< null means the same as to leave it out
  /// Errors need no param: it is the field's name.
  std::function<Status(const Json&, ApiRequest&)> read;
};

/// The fields of a route with this model, in the order of the documentation.
std::vector<Field> fields_of(Route route, const ServedModel& model);

/// Fields of OpenAI's API that are refused by their name with a reason: what is "not served yet".
struct RefusedField {
  std::string_view name;
  std::string_view reason;
};
std::span<const RefusedField> refused_fields();

}  // namespace pagoda::server
