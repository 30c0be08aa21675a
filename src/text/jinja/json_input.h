#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/machine.h"

namespace pagoda::text::jinja {

/// Reads JSON as Python's json.loads does (key order kept, the last of equal keys wins, ints and floats told apart).
/// Not JSON, a lone surrogate, an integer beyond 64 bits, or nesting over kMaxNesting: kInvalidArgument that names
/// `param`. All its strings are untrusted.
Result<Value> read_json(Machine& machine, std::string_view json, const char* param);

}  // namespace pagoda::text::jinja
