// Python's three ways to format: `%`, str.format, and the format specification of numbers.
#pragma once

#include "text/jinja/machine.h"

namespace pagoda::text::jinja {

/// text % arguments (a tuple, a dict for named fields, or one value).
Value format_percent(Machine& machine, const Text& text, const Value& arguments);

/// str.format under the sandbox.
Value format_braces(Machine& machine, const Text& text, const Arguments& arguments);

/// A double with `precision` digits as %f, %e or %g would (`kind` one of f e g F E G).
std::string format_double(double value, char kind, int precision, bool alternate);

}  // namespace pagoda::text::jinja
