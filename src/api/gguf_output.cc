#include "api/gguf_output.h"

#include "api/file_keys.h"
#include "api/folder_keys.h"
#include "api/quantize_run.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "model/gguf_config.h"
#include "text/gguf_source.h"

namespace pagoda::api {
namespace {

using model::Role;

constexpr std::uint32_t kQuantizationVersion = 2;

struct Keys {
  io::GgufKeys keys;
  std::uint64_t alignment = 32;
};

/// Another file's keys, but what they say of its format.
Result<Keys> carried_over(const std::string& path) {
  const io::FileSource source(PAGODA_TRY(File::open(path)));
  const io::GgufHeader header = PAGODA_TRY(io::read_gguf(source));
  Keys out{.keys = {}, .alignment = header.alignment};
  std::vector<std::byte> value;
  for (const io::GgufKeyRange& range : header.keys) {
    if (range.key == "general.file_type" || range.key == "general.quantization_version") continue;
    value.resize(range.end - range.begin);
    PAGODA_TRY(source.read(range.begin, value));
    out.keys.add_typed(range.key, value);
  }
  return out;
}

void add_id(const char* name, const std::optional<std::int64_t>& id, io::GgufKeys& keys) {
  if (id) keys.add(std::string("tokenizer.ggml.") + name, static_cast<std::uint32_t>(*id));
}

/// Every row of the embedding has a token in a GGUF.
void fill_up(text::TokenizerSource& source, std::int64_t vocabulary) {
  const auto unused = static_cast<std::int32_t>(text::TokenType::kUnused);
  source.types.resize(source.tokens.size(), static_cast<std::int32_t>(text::TokenType::kNormal));
  while (std::ssize(source.tokens) < vocabulary) {
    source.tokens.push_back(pagoda::format("[PAD{}]", source.tokens.size()));
    source.types.push_back(unused);
    if (!source.scores.empty()) source.scores.push_back(source.scores.back());
  }
}

Status add_tokenizer(const io::ModelFile& file, std::int64_t vocabulary, io::GgufKeys& keys) {
  if (!folder_has_tokenizer(file.folder())) return Ok{};
  text::TokenizerSource declared = PAGODA_TRY(folder_tokenizer_source(file.folder(), file.config()));
  text::TokenizerSource source = PAGODA_TRY(text::to_gguf_source(declared));
  if (std::ssize(source.tokens) > vocabulary) {
    return fail(ErrorCode::kTokenizerInvalid, "{}: its tokenizer has {} tokens for {} rows of the embedding",
                file.path(), source.tokens.size(), vocabulary);
  }
  fill_up(source, vocabulary);
  const auto wanted = PAGODA_TRY(text::Tokenizer::create(std::move(declared)));
  const auto found = PAGODA_TRY(text::Tokenizer::create(source));
  PAGODA_TRY(text::same_tokens(*wanted, *found));
  keys.add("tokenizer.ggml.model", source.kind);
  if (!source.pre.empty()) keys.add("tokenizer.ggml.pre", source.pre);
  keys.add("tokenizer.ggml.tokens", std::span<const std::string>(source.tokens));
  if (!source.scores.empty()) keys.add("tokenizer.ggml.scores", std::span<const float>(source.scores));
  keys.add("tokenizer.ggml.token_type", std::span<const std::int32_t>(source.types));
  if (!source.merges.empty()) keys.add("tokenizer.ggml.merges", std::span<const std::string>(source.merges));
  add_id("bos_token_id", source.bos, keys);
  add_id("eos_token_id", source.eos, keys);
  add_id("eot_token_id", source.eot, keys);
  add_id("eom_token_id", source.eom, keys);
  add_id("unknown_token_id", source.unknown, keys);
  add_id("padding_token_id", source.padding, keys);
  keys.add("tokenizer.ggml.add_bos_token", source.add_bos.value_or(false));
  keys.add("tokenizer.ggml.add_eos_token", source.add_eos.value_or(false));
  if (source.add_space_prefix) keys.add("tokenizer.ggml.add_space_prefix", *source.add_space_prefix);
  return Ok{};
}

/// What a directory's files say, in keys.
Result<Keys> said_anew(const DescribedFile& described, const QuantizeOptions& options) {
  const model::ModelSpec& spec = described.description.spec;
  const std::string& folder = described.file.folder();
  Keys out;
  model::add_gguf_config(spec, model::family_named(spec.family).gguf.architectures[0], out.keys);
  out.keys.add("general.name", stem_of(folder));
  PAGODA_TRY(add_tokenizer(described.file, spec.vocab, out.keys));
  if (const auto chat = PAGODA_TRY(folder_chat_template(folder))) out.keys.add("tokenizer.chat_template", *chat);
  const SamplingParams sampling = PAGODA_TRY(folder_sampling_defaults(folder, options.ignore_keys));
  const auto number = [&](const char* name, const std::optional<float>& value) {
    if (value) out.keys.add(std::string("general.sampling.") + name, *value);
  };
  number("temp", sampling.temperature);
  number("top_p", sampling.top_p);
  number("min_p", sampling.min_p);
  number("penalty_repeat", sampling.repetition_penalty);
  if (sampling.top_k) out.keys.add("general.sampling.top_k", static_cast<std::uint32_t>(*sampling.top_k));
  return out;
}

}  // namespace

std::vector<TensorJob> gguf_jobs(const DescribedFile& described, const QuantizeTarget& target) {
  const model::ModelSpec& spec = described.description.spec;
  const auto names = model::gguf_names_of(model::family_named(spec.family));
  const bool gguf = described.file.folder().empty();
  std::vector<TensorJob> jobs;
  for (const model::BoundTensor& tensor : described.description.binding.tensors) {
    TensorJob job{
        .source = tensor,
        .target = {.name = gguf ? tensor.entry->name : model::tensor_name(names, tensor.role, tensor.layer),
                   .format = format_for(target, spec, tensor),
                   .shape = tensor.matrix ? std::vector{tensor.rows, tensor.cols} : std::vector{tensor.cols}}};
    job.fell_back = tensor.matrix && !target.format->divides(tensor.cols);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::vector<QuantizedTensor>> write_gguf(const DescribedFile& described, const QuantizeTarget& target,
                                                std::vector<TensorJob> jobs, const Output& output, ThreadPool& pool,
                                                const QuantizeOptions& options) {
  const model::ModelSpec& spec = described.description.spec;
  const bool gguf = described.file.folder().empty();
  Keys keys = PAGODA_TRY(gguf ? carried_over(described.file.path()) : said_anew(described, options));
  keys.keys.add("general.quantization_version", kQuantizationVersion);
  if (target.file_type) keys.keys.add("general.file_type", *target.file_type);
  std::vector<io::NewTensor> tensors;
  for (const TensorJob& job : jobs) tensors.push_back(job.target);
  const std::vector<float> divisors = gguf ? std::vector<float>() : model::gguf_rope_divisors(spec);
  if (!divisors.empty()) {
    tensors.push_back({.name = model::tensor_name(model::gguf_tensor_names(), Role::kRopeDivisors, -1),
                       .format = quant::find_format("f32"),
                       .shape = {std::ssize(divisors)}});
  }
  const io::FileImage image = io::lay_out_gguf(keys.keys, tensors, keys.alignment);
  NewFile file = PAGODA_TRY(NewFile::create(output.work_path(), image.bytes));
  PAGODA_TRY(file.write(0, std::as_bytes(std::span(image.header.data(), image.header.size()))));
  if (!divisors.empty()) PAGODA_TRY(file.write(image.offsets.back(), std::as_bytes(std::span(divisors))));

  const io::ModelFile read_back = PAGODA_TRY(io::open_model(output.work_path()));
  const auto found = model::describe_model(read_back.config(), read_back.tensors(),
                                           gguf ? options.ignore_keys : std::vector<std::string>());
  if (!found.ok()) {
    return fail(ErrorCode::kConfigUnknown, "{}: a GGUF file cannot say what this model is: {}", described.file.path(),
                found.error().message);
  }
  PAGODA_TRY(model::same_model(spec, found->spec, {}, divisors, described.file.path()));
  PAGODA_TRY(reconcile(spec, found->spec, jobs));

  std::vector<TensorSink> sinks;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto row_bytes = static_cast<std::uint64_t>(jobs[i].target.format->row_bytes(jobs[i].source.cols));
    sinks.push_back([&file, row_bytes, offset = image.offsets[i]](std::int64_t row, std::int64_t, auto blocks) {
      return file.write(offset + static_cast<std::uint64_t>(row) * row_bytes, blocks);
    });
  }
  auto done = PAGODA_TRY(run_jobs(described.file, jobs, sinks, pool, options));
  PAGODA_TRY(file.finish());
  return done;
}

}  // namespace pagoda::api
