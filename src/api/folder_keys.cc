#include "api/folder_keys.h"

#include <filesystem>

#include "base/file.h"
#include "io/json_config.h"
#include "model/config_reader.h"
#include "text/tokenizer_json.h"

namespace pagoda::api {
namespace {

constexpr std::uint64_t kMaxTokenizerBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 20;

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// An empty configuration if there is no such file.
Result<io::RawConfig> optional_config(const std::string& path) {
  return exists(path) ? io::read_json_config(path) : Result<io::RawConfig>(io::RawConfig(path));
}

Result<std::string> optional_text(const std::string& path, std::uint64_t max_bytes) {
  return exists(path) ? read_text(path, max_bytes) : Result<std::string>(std::string());
}

/// One id or a list of them.
Result<std::vector<std::int64_t>> ids(const io::RawConfig& config, std::string_view key) {
  if (!config.contains(key)) return std::vector<std::int64_t>();
  if (config.find(key)->get_if<io::NumberList>() != nullptr) return config.integers(key, 0, INT32_MAX);
  return std::vector<std::int64_t>{PAGODA_TRY(config.integer(key, 0, INT32_MAX))};
}

/// A number that may only have the value that means off.
Status only(const model::ConfigReader& config, std::string_view key, double neutral) {
  const double value = PAGODA_TRY(config.number_or(key, neutral, -1e300, 1e300));
  if (value == neutral) return Ok{};
  return fail(ErrorCode::kConfigUnknown,
              "{}: {} is {}, a way to choose tokens that Pagoda does not have; only {} is allowed (--ignore-key {} "
              "overrides)",
              config.source(), key, value, neutral, key);
}

/// What says how long to answer, what to return, how beams would be scored, and how a library ran the model.
void mark_irrelevant(const model::ConfigReader& config) {
  config.irrelevant({"_from_model_config",
                     "transformers_version",
                     "bos_token_id",
                     "pad_token_id",
                     "decoder_start_token_id",
                     "eos_token_id",
                     "max_length",
                     "max_new_tokens",
                     "use_cache",
                     "cache_implementation",
                     "cache_config",
                     "return_dict_in_generate",
                     "output_attentions",
                     "output_hidden_states",
                     "output_scores",
                     "output_logits",
                     "early_stopping",
                     "length_penalty",
                     "num_return_sequences",
                     "max_time",
                     "low_memory",
                     "prefill_chunk_size",
                     "compile_config",
                     "disable_compile",
                     "assistant_confidence_threshold",
                     "num_assistant_tokens",
                     "num_assistant_tokens_schedule",
                     "assistant_early_exit",
                     "assistant_lookbehind",
                     "target_lookbehind",
                     "is_assistant",
                     "prompt_lookup_num_tokens",
                     "max_matching_ngram_size",
                     "generation_kwargs",
                     "token_healing"});
}

Status refuse_other_ways(const model::ConfigReader& config) {
  for (const std::string_view key :
       {"num_beams", "num_beam_groups", "typical_p", "top_h", "encoder_repetition_penalty", "guidance_scale"}) {
    PAGODA_TRY(only(config, key, 1));
  }
  for (const std::string_view key : {"epsilon_cutoff", "eta_cutoff", "diversity_penalty", "no_repeat_ngram_size",
                                     "encoder_no_repeat_ngram_size", "penalty_alpha", "min_length", "min_new_tokens"}) {
    PAGODA_TRY(only(config, key, 0));
  }
  return config.off({"renormalize_logits", "remove_invalid_values", "constraints", "bad_words_ids", "force_words_ids",
                     "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
                     "sequence_bias", "stop_strings"});
}

}  // namespace

bool folder_has_tokenizer(const std::string& folder) { return exists(folder + "/tokenizer.json"); }

Result<text::TokenizerSource> folder_tokenizer_source(const std::string& folder, const io::RawConfig& model) {
  const std::string tokenizer = PAGODA_TRY(read_text(folder + "/tokenizer.json", kMaxTokenizerBytes));
  const std::string config = PAGODA_TRY(optional_text(folder + "/tokenizer_config.json", kMaxConfigBytes));
  const io::RawConfig generation = PAGODA_TRY(optional_config(folder + "/generation_config.json"));
  std::vector<std::int64_t> ends = PAGODA_TRY(ids(generation, "eos_token_id"));
  if (ends.empty()) ends = PAGODA_TRY(ids(model, "eos_token_id"));
  auto source = text::read_tokenizer_json({.tokenizer = tokenizer, .config = config, .end_ids = ends});
  if (source.ok()) return source;
  return fail(source.error().code, "{}/{}", folder, source.error().message);
}

Result<SamplingParams> folder_sampling_defaults(const std::string& folder, std::span<const std::string> ignored) {
  const io::RawConfig file = PAGODA_TRY(optional_config(folder + "/generation_config.json"));
  const model::ConfigReader config(file, "", ignored);
  mark_irrelevant(config);
  PAGODA_TRY(refuse_other_ways(config));
  const bool sample = PAGODA_TRY(config.boolean_or("do_sample", false));
  const auto temperature = static_cast<float>(PAGODA_TRY(config.number_or("temperature", 1, 0, 1e6)));
  const std::int64_t top_k = PAGODA_TRY(config.integer_or("top_k", 0, -1, INT32_MAX));  // -1 and 0: off
  const auto top_p = static_cast<float>(PAGODA_TRY(config.number_or("top_p", 1, 1e-9, 1)));
  const auto min_p = static_cast<float>(PAGODA_TRY(config.number_or("min_p", 0, 0, 1)));
  const auto penalty = static_cast<float>(PAGODA_TRY(config.number_or("repetition_penalty", 1, 1e-6, 1e6)));
  PAGODA_TRY(config.finish());
  SamplingParams out;
  if (penalty != 1) out.repetition_penalty = penalty;
  if (!sample) return out;
  out.temperature = temperature;
  if (top_k > 0) out.top_k = static_cast<std::int32_t>(top_k);
  if (top_p != 1) out.top_p = top_p;
  if (min_p != 0) out.min_p = min_p;
  return out;
}

bool folder_generation_has(const std::string& folder, const std::string& key) {
  if (folder.empty()) return false;
  const auto file = optional_config(folder + "/generation_config.json");
  return file.ok() && (file->contains(key) || file->contains_prefix(key + "."));
}

Result<std::optional<std::string>> folder_chat_template(const std::string& folder) {
  using Found = std::optional<std::string>;
  const std::string own = folder + "/chat_template.jinja";
  if (exists(own)) return Found(PAGODA_TRY(read_text(own, kMaxTemplateBytes)));
  const io::RawConfig config = PAGODA_TRY(optional_config(folder + "/tokenizer_config.json"));
  if (config.contains("chat_template")) return Found(PAGODA_TRY(config.text("chat_template")));
  if (!config.contains_prefix("chat_template.")) return Found();
  for (int i = 0;; ++i) {
    const std::string entry = pagoda::format("chat_template.{}.", i);
    if (!config.contains_prefix(entry)) break;
    if (PAGODA_TRY(config.text(entry + "name")) != "default") continue;
    return Found(PAGODA_TRY(config.text(entry + "template")));
  }
  return fail(ErrorCode::kConfigRange, "{}: of the chat templates in its list none is named \"default\"",
              config.source());
}

}  // namespace pagoda::api
