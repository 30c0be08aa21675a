#include "api/file_keys.h"

#include <map>

#include "quant/format.h"

namespace pagoda::api {
namespace {

Result<std::vector<std::string>> strings(const io::RawConfig& config, std::string_view key) {
  std::vector<std::string> out;
  if (!config.contains(key)) return out;
  const io::StringList* list = PAGODA_TRY(config.texts(key));
  out.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) out.emplace_back((*list)[i]);
  return out;
}

Result<std::optional<std::int64_t>> id(const io::RawConfig& config, std::string_view key) {
  if (!config.contains(key)) return std::optional<std::int64_t>{};
  return std::optional<std::int64_t>(PAGODA_TRY(config.integer(key, INT64_MIN, INT64_MAX)));
}

Result<std::optional<bool>> flag(const io::RawConfig& config, std::string_view key) {
  if (!config.contains(key)) return std::optional<bool>{};
  return std::optional<bool>(PAGODA_TRY(config.boolean(key)));
}

/// Lists as long as the vocabulary, read without a detour through wider numbers.
template <class T, class Read>
Result<std::vector<T>> numbers(const io::RawConfig& config, std::string_view key, Read read) {
  std::vector<T> out;
  const io::Value* value = config.find(key);
  if (value == nullptr) return out;
  const auto* list = value->get_if<io::NumberList>();
  if (list == nullptr) {
    return fail(ErrorCode::kConfigType, "{}: {} is {}, and must be a list of numbers", config.source(), key,
                value->kind());
  }
  out.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::optional<T> number = read(*list, i);
    if (!number) return fail(ErrorCode::kConfigRange, "{}: element {} of {} is out of range", config.source(), i, key);
    out.push_back(*number);
  }
  return out;
}

std::optional<std::int32_t> read_int(const io::NumberList& list, std::size_t i) {
  const auto value = list.integer(i);
  if (!value || *value < INT32_MIN || *value > INT32_MAX) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

std::optional<float> read_float(const io::NumberList& list, std::size_t i) {
  return static_cast<float>(list.number(i));
}

Result<std::optional<float>> setting(const io::RawConfig& config, std::string_view key, double least, double most) {
  if (!config.contains(key)) return std::optional<float>{};
  return std::optional<float>(static_cast<float>(PAGODA_TRY(config.number(key, least, most))));
}

/// The file types of GGUF that a file made of the formats we read can declare.
const std::map<std::int64_t, std::string_view>& file_types() {
  static const std::map<std::int64_t, std::string_view> kNames = {
      {0, "f32"},     {1, "f16"},     {2, "q4_0"},    {3, "q4_1"},    {7, "q8_0"},    {8, "q5_0"},    {9, "q5_1"},
      {10, "q2_k"},   {11, "q3_k_s"}, {12, "q3_k_m"}, {13, "q3_k_l"}, {14, "q4_k_s"}, {15, "q4_k_m"}, {16, "q5_k_s"},
      {17, "q5_k_m"}, {18, "q6_k"},   {25, "iq4_nl"}, {30, "iq4_xs"}, {32, "bf16"},   {38, "mxfp4"}};
  return kNames;
}

}  // namespace

bool has_tokenizer(const io::RawConfig& config) {
  return config.contains("tokenizer.ggml.model") && config.contains("tokenizer.ggml.tokens");
}

Result<text::TokenizerSource> tokenizer_source(const io::RawConfig& config) {
  const std::string prefix = "tokenizer.ggml.";
  text::TokenizerSource source;
  source.kind = PAGODA_TRY(config.text(prefix + "model"));
  source.pre = PAGODA_TRY(config.text_or(prefix + "pre", ""));
  source.tokens = PAGODA_TRY(strings(config, prefix + "tokens"));
  source.scores = PAGODA_TRY(numbers<float>(config, prefix + "scores", read_float));
  source.types = PAGODA_TRY(numbers<std::int32_t>(config, prefix + "token_type", read_int));
  source.merges = PAGODA_TRY(strings(config, prefix + "merges"));
  source.bos = PAGODA_TRY(id(config, prefix + "bos_token_id"));
  source.eos = PAGODA_TRY(id(config, prefix + "eos_token_id"));
  source.eot = PAGODA_TRY(id(config, prefix + "eot_token_id"));
  source.eom = PAGODA_TRY(id(config, prefix + "eom_token_id"));
  source.unknown = PAGODA_TRY(id(config, prefix + "unknown_token_id"));
  source.padding = PAGODA_TRY(id(config, prefix + "padding_token_id"));
  source.add_bos = PAGODA_TRY(flag(config, prefix + "add_bos_token"));
  source.add_eos = PAGODA_TRY(flag(config, prefix + "add_eos_token"));
  source.add_space_prefix = PAGODA_TRY(flag(config, prefix + "add_space_prefix"));
  source.remove_extra_whitespaces = PAGODA_TRY(flag(config, prefix + "remove_extra_whitespaces"));
  return source;
}

Result<SamplingParams> sampling_defaults(const io::RawConfig& config) {
  SamplingParams out;
  out.temperature = PAGODA_TRY(setting(config, "general.sampling.temp", 0, 1e6));
  out.top_p = PAGODA_TRY(setting(config, "general.sampling.top_p", 1e-9, 1));
  out.min_p = PAGODA_TRY(setting(config, "general.sampling.min_p", 0, 1));
  out.repetition_penalty = PAGODA_TRY(setting(config, "general.sampling.penalty_repeat", 1e-6, 1e6));
  if (config.contains("general.sampling.top_k")) {
    // Files may say -1 where they mean: off.
    const std::int64_t top_k = PAGODA_TRY(config.integer("general.sampling.top_k", -1, INT32_MAX));
    out.top_k = static_cast<std::int32_t>(top_k < 0 ? 0 : top_k);
  }
  return out;
}

Result<std::optional<std::string>> chat_template_of(const io::RawConfig& config) {
  if (!config.contains("tokenizer.chat_template")) return std::optional<std::string>{};
  return std::optional<std::string>(PAGODA_TRY(config.text("tokenizer.chat_template")));
}

std::string format_of(const io::ModelFile& file) {
  const Result<std::int64_t> type = file.config().integer("general.file_type", 0, 1 << 20);
  if (type.ok()) {
    const auto known = file_types().find(*type);
    if (known != file_types().end()) return std::string(known->second);
  }
  std::map<std::string_view, std::uint64_t> bytes;
  for (const io::TensorEntry& entry : file.tensors().entries()) bytes[entry.format->name] += entry.bytes;
  std::string_view best;
  for (const auto& [name, count] : bytes) {
    if (best.empty() || count > bytes[best]) best = name;
  }
  return std::string(best);
}

std::string stem_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  for (const std::string_view ending : {".gguf", ".json"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return name;
}

}  // namespace pagoda::api
