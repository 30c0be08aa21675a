#include "api/folder_output.h"

#include <algorithm>
#include <filesystem>

#include "api/folder_config.h"
#include "api/folder_keys.h"
#include "api/folder_tensors.h"
#include "api/folder_tokenizer.h"
#include "api/quantize_run.h"
#include "model/gguf_config.h"

namespace pagoda::api {
namespace {

namespace fs = std::filesystem;
using model::Role;

const quant::Format* format_in_folder(const QuantizeTarget& target, const model::BoundTensor& tensor, bool from_gguf) {
  const bool floats = tensor.entry->format->block_elements == 1;
  const quant::Format* const own = floats ? tensor.entry->format : quant::find_format("bf16");
  if (!tensor.matrix) return from_gguf ? quant::find_format("f32") : own;
  if (target.kind == CheckpointKind::kFloats) return target.format;
  const bool outer = tensor.role == Role::kEmbedding || tensor.role == Role::kHead;
  return outer || !fits_folder(target, tensor.cols) ? own : target.format;
}

/// "model.layers.0.mlp.up_proj" of its weight.
std::string module_of(const TensorJob& job) { return job.target.name.substr(0, job.target.name.rfind('.')); }

/// Files beside the tensors that say nothing about how these are kept.
Status copy_others(const std::string& from, const std::string& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model",
        "vocab.json", "merges.txt", "generation_config.json", "chat_template.jinja", "chat_template.json", "LICENSE"}) {
    std::error_code error;
    const fs::path source = fs::path(from) / name;
    if (!fs::exists(source, error)) continue;
    fs::copy_file(source, fs::path(to) / name, error);
    if (error) return fail(ErrorCode::kIoFailed, "{} cannot be copied to {}: {}", source.string(), to, error.message());
  }
  return Ok{};
}

struct Layout {
  std::vector<std::vector<TensorPart>> parts;    // by job
  std::vector<std::vector<std::size_t>> places;  // of each part: into the image's offsets
  io::FileImage image;
};

/// Wide types first, so that each tensor lies at a multiple of its width.
Layout lay_out(const QuantizeTarget& target, std::vector<TensorJob>& jobs) {
  Layout layout;
  struct Place {
    std::size_t job, part;
  };
  std::vector<Place> order;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    layout.parts.push_back(folder_parts(target, jobs[i]));
    layout.places.emplace_back(layout.parts[i].size());
    for (std::size_t part = 0; part < layout.parts[i].size(); ++part) order.push_back({i, part});
  }
  const auto tensor = [&](const Place& at) -> const io::NewSafetensor& { return layout.parts[at.job][at.part].tensor; };
  std::ranges::stable_sort(order, std::greater<>(), [&](const Place& at) { return io::width_of(tensor(at).dtype); });
  std::vector<io::NewSafetensor> tensors;
  for (std::size_t i = 0; i < order.size(); ++i) {
    tensors.push_back(tensor(order[i]));
    layout.places[order[i].job][order[i].part] = i;
  }
  layout.image = io::lay_out_safetensors(tensors);
  return layout;
}

Status write_part(const NewFile& file, const TensorPart& part, std::uint64_t offset, std::int64_t first,
                  std::int64_t count, std::span<const std::byte> blocks) {
  std::vector<std::byte> bytes;
  const std::uint64_t begin = part.bytes_of(first, count, blocks, bytes);
  return file.write(offset + begin, bytes);
}

}  // namespace

std::vector<TensorJob> folder_jobs(const DescribedFile& described, const QuantizeTarget& target) {
  const model::ModelSpec& spec = described.description.spec;
  const auto names = model::hf_names_of(model::family_named(spec.family));
  const bool gguf = described.file.folder().empty();
  std::vector<TensorJob> jobs;
  for (const model::BoundTensor& tensor : described.description.binding.tensors) {
    if (tensor.role == Role::kRopeDivisors) continue;  // config.json states them
    TensorJob job{
        .source = tensor,
        .target = {.name = gguf ? model::tensor_name(names, tensor.role, tensor.layer) : tensor.entry->name,
                   .format = format_in_folder(target, tensor, gguf),
                   .shape = tensor.matrix ? std::vector{tensor.rows, tensor.cols} : std::vector{tensor.cols}}};
    job.fell_back = tensor.matrix && tensor.layer >= 0 && job.target.format != target.format;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::vector<QuantizedTensor>> write_folder(const DescribedFile& described, const QuantizeTarget& target,
                                                  std::vector<TensorJob> jobs, const Output& output, ThreadPool& pool,
                                                  const QuantizeOptions& options) {
  const std::string& folder = output.work_path();
  const bool gguf = described.file.folder().empty();
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    return fail(ErrorCode::kIoFailed, "{} cannot be made: {}", folder, error.message());
  }
  std::vector<std::string> unquantised = {"lm_head"};
  for (const TensorJob& job : jobs) {
    if (job.fell_back) unquantised.push_back(module_of(job));
  }
  const std::string config = PAGODA_TRY(folder_config(described, target, unquantised));
  PAGODA_TRY(write_text(folder + "/config.json", config));
  PAGODA_TRY(gguf ? write_folder_tokenizer(described, folder) : copy_others(described.file.folder(), folder));

  const Layout layout = lay_out(target, jobs);
  NewFile file = PAGODA_TRY(NewFile::create(folder + "/model.safetensors", layout.image.bytes));
  PAGODA_TRY(file.write(0, std::as_bytes(std::span(layout.image.header.data(), layout.image.header.size()))));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (std::size_t part = 0; part < layout.parts[i].size(); ++part) {
      if (!layout.parts[i][part].whole) continue;
      PAGODA_TRY(write_part(file, layout.parts[i][part], layout.image.offsets[layout.places[i][part]], 0, 0, {}));
    }
  }
  const DescribedFile found =
      PAGODA_TRY(describe_file(folder, {.ignore_keys = gguf ? std::vector<std::string>() : options.ignore_keys}));
  const model::ModelSpec& spec = described.description.spec;
  const std::vector<float> divisors = PAGODA_TRY(rope_divisors(described));
  PAGODA_TRY(model::same_model(spec, found.description.spec, divisors, {}, described.file.path()));
  PAGODA_TRY(reconcile(spec, found.description.spec, jobs));

  std::vector<TensorSink> sinks;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    sinks.push_back([&, i](std::int64_t first, std::int64_t count, std::span<const std::byte> blocks) -> Status {
      for (std::size_t part = 0; part < layout.parts[i].size(); ++part) {
        const std::uint64_t offset = layout.image.offsets[layout.places[i][part]];
        PAGODA_TRY(write_part(file, layout.parts[i][part], offset, first, count, blocks));
      }
      return Ok{};
    });
  }
  auto done = PAGODA_TRY(run_jobs(described.file, jobs, sinks, pool, options));
  PAGODA_TRY(file.finish());
  return done;
}

}  // namespace pagoda::api
