#include "pagoda/warm.h"

#include <cstdio>

#include "apps/commands.h"
#include "apps/json.h"
#include "base/result.h"

namespace pagoda::apps {

Status warm(const Arguments& arguments) {
  const Library library = PAGODA_TRY(Library::create(library_options(arguments)));
  const WarmOptions options{.model = PAGODA_TRY(model_options(arguments, false)), .caps = arguments.caps};
  const Warmed warmed = PAGODA_TRY(pagoda::warm(library, arguments.model, options));
  if (arguments.json) {
    std::printf("%s\n", to_json(warmed).c_str());
    return Ok{};
  }
  const auto number = [](std::int64_t count) { return static_cast<long long>(count); };
  std::printf("%lld kernels for %s (%s): %lld packed with the program, %lld kept, %lld compiled in %.1f s\n",
              number(warmed.packed + warmed.kept + warmed.compiled), warmed.gpu.c_str(), warmed.architecture.c_str(),
              number(warmed.packed), number(warmed.kept), number(warmed.compiled), warmed.seconds);
  if (warmed.kept + warmed.compiled > 0) std::printf("kept in %s\n", warmed.folder.c_str());
  return Ok{};
}

}  // namespace pagoda::apps
