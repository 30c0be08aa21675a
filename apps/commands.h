// The program's commands. Each prints its result on stdout and returns the error that main prints.
#pragma once

#include "apps/arguments.h"

namespace pagoda::apps {

Status run(const Arguments& arguments);
Status chat(const Arguments& arguments);
Status tokenize(const Arguments& arguments);
Status detokenize(const Arguments& arguments);
Status render(const Arguments& arguments);
Status score(const Arguments& arguments);
Status inspect(const Arguments& arguments);
Status bench(const Arguments& arguments);
Status warm(const Arguments& arguments);
Status serve(const Arguments& arguments);
Status quantize(const Arguments& arguments);

/// Reports an error as main does and ends the process with its code, without waiting for any thread of it.
[[noreturn]] void end_at_once(const Error& error);

/// Opens the model of the arguments: the library's messages and the progress of a long load go to stderr, and the
/// progress to `progress` too, if there is one.
Result<Model> open_model(const Arguments& arguments, bool weights, const ProgressSink& progress = {});

/// What the library says to people goes to stderr, if the arguments name no other place.
LibraryOptions library_options(const Arguments& arguments);

/// `--template`'s text, if there is one.
Result<ModelOptions> model_options(const Arguments& arguments, bool weights);

}  // namespace pagoda::apps
