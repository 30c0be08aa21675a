#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pagoda {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "pagoda: %s:%d: check failed: %s %s\n", file, line, condition, values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace pagoda
