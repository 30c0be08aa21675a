#include <cstdio>
#include <cstdlib>

#include "apps/commands.h"
#include "apps/kernel_pack.h"
#include "apps/terminal.h"
#include "base/file.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::uint64_t kMostTemplateBytes = 1u << 20;

/// Where a user's programs keep what can be made again; empty if the environment names no place.
std::string cache_folder() {
  const char* const base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && base[0] == '/') return std::string(base) + "/pagoda/kernels";
  const char* const home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/pagoda/kernels" : "";
}

}  // namespace

LibraryOptions library_options(const Arguments& arguments) {
  LibraryOptions options = arguments.library;
  if (options.cache_folder.empty()) options.cache_folder = cache_folder();
  options.kernel_pack = kernel_pack();
  if (options.log) return options;
  options.log = [](LogLevel level, std::string_view message) {
    if (level == LogLevel::kDebug) return;
    std::fprintf(stderr, "pagoda: %.*s\n", static_cast<int>(message.size()), message.data());
  };
  return options;
}

Result<ModelOptions> model_options(const Arguments& arguments, bool weights) {
  ModelOptions options = arguments.options;
  options.weights = weights;
  if (!arguments.template_file.empty()) {
    options.chat_template = PAGODA_TRY(read_text(arguments.template_file, kMostTemplateBytes));
  }
  if (weights) options.progress = progress_line();
  return options;
}

Result<Model> open_model(const Arguments& arguments, bool weights, const ProgressSink& progress) {
  const Library library = PAGODA_TRY(Library::create(library_options(arguments)));
  ModelOptions options = PAGODA_TRY(model_options(arguments, weights));
  if (progress) {
    options.progress = [line = std::move(options.progress), progress](const Progress& now) {
      if (line) line(now);
      progress(now);
    };
  }
  return Model::open(library, arguments.model, std::move(options));
}

}  // namespace pagoda::apps
