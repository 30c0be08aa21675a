// Which modules a checkpoint's "re:" expression names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pagoda::io {

/// As Python's re.match: from a name's beginning on, not to its end. The expression is a stranger's, so what compiling
/// and matching may cost is bounded.
class ModulePattern {
 public:
  /// Errors: kConfigUnknown for what is no expression, or too long a one.
  static Result<ModulePattern> compile(std::string_view expression);

  /// Errors: kConfigUnknown if finding out takes too many steps.
  Result<bool> matches(std::string_view module) const;

 private:
  struct Code;
  explicit ModulePattern(std::shared_ptr<const Code> code);

  std::shared_ptr<const Code> code_;
};

}  // namespace pagoda::io
