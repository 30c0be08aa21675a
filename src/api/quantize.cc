#include "pagoda/quantize.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <set>

#include "api/describe.h"
#include "api/file_keys.h"
#include "api/folder_output.h"
#include "api/gguf_output.h"
#include "api/library_state.h"
#include "api/quantize_jobs.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// An output that is the input would be read while it is replaced, and one that holds the input would take it away.
Status refuse_same(const std::string& in, const std::string& out) {
  std::error_code error;
  if (fs::equivalent(in, out, error) && !error) {
    return fail_param(ErrorCode::kInvalidArgument, "out", "{} is the input; the output must be another file", out);
  }
  fs::path place = fs::canonical(in, error);
  while (!error && place.has_relative_path()) {
    place = place.parent_path();
    if (fs::equivalent(place, out, error) && !error) {
      return fail_param(ErrorCode::kInvalidArgument, "out", "{} holds the input {}: it is not replaced", out, in);
    }
    error.clear();
  }
  return Ok{};
}

/// `--overwrite` does not take away what nobody would call an output.
Status refuse_other_folders(const std::string& out) {
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (fs::exists(status) && !fs::is_directory(status) && !fs::is_regular_file(status)) {
    return fail_param(ErrorCode::kInvalidArgument, "out", "{} is a device, a pipe or a socket: it is not replaced",
                      out);
  }
  if (!fs::is_directory(status) || fs::is_empty(out, error) || fs::exists(fs::path(out) / "config.json", error)) {
    return Ok{};
  }
  return fail_param(ErrorCode::kInvalidArgument, "out", "{} is a directory, and no model: it is not replaced", out);
}

bool is_quantised(const api::DescribedFile& described) {
  for (const model::BoundTensor& tensor : described.description.binding.tensors) {
    if (tensor.matrix && tensor.entry->format->block_elements > 1) return true;
  }
  return false;
}

/// The formats that stand in for the one that was asked for, by name.
std::string fallbacks(const std::vector<api::TensorJob>& jobs) {
  std::set<std::string_view> names;
  for (const api::TensorJob& job : jobs) {
    if (job.fell_back) names.insert(job.target.format->name);
  }
  std::string list;
  for (const std::string_view name : names) list += pagoda::format("{}{}", list.empty() ? "" : ", ", name);
  return list;
}

/// A file in which nothing has the format would bear its name all the same.
Status refuse_without_a_matrix(const std::string& in, const std::vector<api::TensorJob>& jobs,
                               const api::QuantizeTarget& target) {
  const bool ends_too = target.kind == api::CheckpointKind::kGguf;  // directories keep embedding and head as floats
  std::int64_t asked = 0;
  std::int64_t fallen = 0;
  for (const api::TensorJob& job : jobs) {
    asked += job.source.matrix && (ends_too || job.source.layer >= 0);
    fallen += job.fell_back;
  }
  if (asked == 0 || fallen < asked) return Ok{};
  return fail_param(ErrorCode::kInvalidArgument, "format",
                    "{} can hold the rows of none of the {} matrices of {}; they would all be {}", target.name, asked,
                    in, fallbacks(jobs));
}

void warn(const Library::State& library, const api::DescribedFile& described, const std::vector<api::TensorJob>& jobs,
          const api::QuantizeTarget& target) {
  if (is_quantised(described)) {
    library.log(LogLevel::kWarning,
                pagoda::format("{}: is quantised already ({}): the errors below are on top of those it has",
                               described.file.path(), api::format_of(described.file)));
  }
  const auto fallen = std::ranges::count_if(jobs, &api::TensorJob::fell_back);
  if (fallen == 0) return;
  library.log(LogLevel::kWarning, pagoda::format("{} matrices have rows that {} cannot hold, and are written as {}",
                                                 fallen, target.name, fallbacks(jobs)));
}

Result<Quantized> quantize_described(const Library::State& library, const std::string& in, const std::string& out,
                                     const QuantizeOptions& options) {
  const Clock::time_point begin = Clock::now();
  const api::QuantizeTarget target = PAGODA_TRY(api::find_target(options.format, out));
  const bool gguf = target.kind == api::CheckpointKind::kGguf;
  if (options.progress) options.progress({.stage = ProgressStage::kReadHeader});
  const api::DescribedFile described = PAGODA_TRY(api::describe_file(in, {.ignore_keys = options.ignore_keys}));
  PAGODA_TRY(refuse_same(in, out));
  PAGODA_TRY(refuse_other_folders(out));
  const std::vector<api::TensorJob> jobs =
      gguf ? api::gguf_jobs(described, target) : api::folder_jobs(described, target);
  PAGODA_TRY(refuse_without_a_matrix(in, jobs, target));
  Output output = PAGODA_TRY(Output::create(out, options.overwrite));
  warn(library, described, jobs, target);
  ThreadPool pool(library.threads);
  Quantized done{.from = api::format_of(described.file), .format = std::string(target.name)};
  const auto write = gguf ? &api::write_gguf : &api::write_folder;
  done.tensors = PAGODA_TRY(write(described, target, jobs, output, pool, options));
  if (options.cancelled && options.cancelled()) {
    return fail(ErrorCode::kCancelled, "quantising was interrupted; nothing was written");
  }
  PAGODA_TRY(output.commit());
  for (const api::TensorJob& job : jobs) done.bytes_read += static_cast<std::int64_t>(job.source.entry->bytes);
  for (const QuantizedTensor& tensor : done.tensors) done.bytes_written += tensor.bytes;
  done.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return done;
}

}  // namespace

std::vector<std::string> quantize_formats() { return api::target_names(); }

std::string quantize_format_like(std::string_view name) {
  const std::vector<std::string> known = quantize_formats();
  for (const quant::FormatAlias& alias : quant::format_aliases()) {
    if (alias.name == name && std::ranges::find(known, alias.of) != known.end()) return std::string(alias.of);
  }
  return {};
}

/// One of the places where exceptions end, as Model::open is.
Result<Quantized> quantize(const Library& library, const std::string& in, const std::string& out,
                           const QuantizeOptions& options) {
  try {
    return quantize_described(*library.state(), in, out, options);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "{}: there is not enough memory to quantise it", in);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "{}: {}", in, exception.what());
  }
}

}  // namespace pagoda
