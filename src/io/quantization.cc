#include "io/quantization.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "io/json_config.h"
#include "io/quoted.h"

namespace pagoda::io {
namespace {

constexpr std::string_view kMethods =
    "gptq, awq, fp8, fbgemm_fp8, compressed-tensors, bitsandbytes, modelopt, mxfp4, and MLX's";
constexpr std::int64_t kMostColumns = std::int64_t{1} << 40;
constexpr std::string_view kAllLinear = "Linear";  // a class of modules: every one that has a matrix
constexpr std::string_view kExpression = "re:";

/// The keys of one object.
class Keys {
 public:
  Keys(const RawConfig& config, std::string prefix) : config_(config), prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }
  const RawConfig& config() const { return config_; }
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool contains(std::string_view key) const { return config_.contains(full(key)); }

  Result<std::int64_t> integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                                  std::int64_t most) const {
    return config_.integer_or(full(key), fallback, least, most);
  }
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const {
    return std::string(PAGODA_TRY(config_.text_or(full(key), fallback)));
  }
  Result<bool> flag_or(std::string_view key, bool fallback) const { return config_.boolean_or(full(key), fallback); }
  void irrelevant(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) config_.mark_tree_read(full(key));
  }
  /// A value other than the one that is served.
  Error refuse(std::string_view key, std::string_view found, std::string_view served) const {
    return fail(ErrorCode::kConfigUnknown, "{}: {} is {}; Pagoda reads {}", config_.source(), full(key), quoted(found),
                served);
  }
  Status require(std::string_view key, std::string_view fallback,
                 std::initializer_list<std::string_view> served) const {
    const std::string value = PAGODA_TRY(text_or(key, fallback));
    if (std::ranges::find(served, value) != served.end()) return Ok{};
    std::string list;
    for (const std::string_view each : served) list += pagoda::format("{}{}", list.empty() ? "" : ", ", each);
    return refuse(key, value, list);
  }

 private:
  const RawConfig& config_;
  std::string prefix_;
};

Result<std::int64_t> read_group(const Keys& keys, std::string_view key) {
  const std::int64_t group = PAGODA_TRY(keys.integer_or(key, -1, -1, kMostColumns));
  if (group == 0) return keys.refuse(key, "0", "positive sizes, and -1 for whole rows");
  return std::max<std::int64_t>(group, 0);
}

Status read_gptq(const Keys& keys, Quantization& out) {
  QuantScheme scheme;
  scheme.bits = PAGODA_TRY(keys.integer_or("bits", 0, 0, 32));
  if (scheme.bits != 2 && scheme.bits != 3 && scheme.bits != 4 && scheme.bits != 8) {
    return keys.refuse("bits", std::to_string(scheme.bits), "2, 3, 4 and 8");
  }
  scheme.group = PAGODA_TRY(read_group(keys, "group_size"));
  PAGODA_TRY(keys.require("checkpoint_format", "gptq", {"gptq", "gptq_v2"}));
  const std::string format = PAGODA_TRY(keys.text_or("checkpoint_format", "gptq"));
  out.zeros_less_one = format == "gptq";
  PAGODA_TRY(keys.require("pack_dtype", "int32", {"int32"}));
  if (PAGODA_TRY(keys.flag_or("is_marlin_format", false))) {
    return keys.refuse("is_marlin_format", "true", "GPTQ's own packing; convert the checkpoint back");
  }
  scheme.ordered = PAGODA_TRY(keys.flag_or("desc_act", false));
  keys.irrelevant({"sym",
                   "static_groups",
                   "true_sequential",
                   "damp_percent",
                   "damp_auto_increment",
                   "lm_head",
                   "quantizer",
                   "meta",
                   "model_name_or_path",
                   "model_file_base_name",
                   "backend",
                   "use_exllama",
                   "disable_exllama",
                   "exllama_config",
                   "max_input_length",
                   "dataset",
                   "tokenizer",
                   "batch_size",
                   "model_seqlen",
                   "block_name_to_quantize",
                   "module_name_preceding_first_block",
                   "modules_in_block_to_quantize",
                   "pad_token_id",
                   "cache_block_outputs",
                   "use_cuda_fp16",
                   "mse",
                   "act_group_aware",
                   "hessian",
                   "offload_to_disk",
                   "format"});
  out.schemes.push_back(scheme);
  return Ok{};
}

Status read_awq(const Keys& keys, Quantization& out) {
  QuantScheme scheme;
  scheme.bits = PAGODA_TRY(keys.integer_or(keys.contains("w_bit") ? "w_bit" : "bits", 4, 0, 32));
  if (scheme.bits != 4) return keys.refuse("bits", std::to_string(scheme.bits), "4 of AWQ");
  scheme.group = PAGODA_TRY(read_group(keys, keys.contains("q_group_size") ? "q_group_size" : "group_size"));
  const std::string version = PAGODA_TRY(keys.text_or("version", "gemm"));
  if (version != "gemm" && version != "GEMM") return keys.refuse("version", version, "gemm");
  if (!PAGODA_TRY(keys.flag_or("zero_point", true))) return keys.refuse("zero_point", "false", "true");
  keys.irrelevant({"bits", "group_size", "backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse",
                   "modules_to_not_convert", "exllama_config", "sym", "desc_act", "pack_dtype", "lm_head", "format",
                   "meta"});
  out.schemes.push_back(scheme);
  return Ok{};
}

Result<QuantScheme> read_block(const Keys& keys, std::string_view key) {
  QuantScheme scheme;
  scheme.bits = 8;
  if (!keys.contains(key)) return scheme;
  std::vector<std::int64_t> sizes;
  const std::string full = keys.full(key);
  if (const auto* text = keys.config().find(full)->get_if<std::string>()) {  // "128x128"
    std::int64_t rows = 0, cols = 0;
    char x = 0;
    std::istringstream in(*text);
    if (in >> rows >> x >> cols && x == 'x') sizes = {rows, cols};
  } else {
    sizes = PAGODA_TRY(keys.config().integers(full, 1, kMostColumns));
  }
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
    return fail(ErrorCode::kConfigRange, "{}: {} has to be two positive sizes: rows and columns",
                keys.config().source(), full);
  }
  scheme.strategy = "block";
  scheme.block_rows = sizes[0];
  scheme.block_cols = sizes[1];
  return scheme;
}

Status read_fp8(const Keys& keys, Quantization& out) {
  PAGODA_TRY(keys.require("fmt", "e4m3", {"e4m3", "float8_e4m3fn"}));
  QuantScheme scheme = PAGODA_TRY(read_block(keys, "weight_block_size"));
  // Both round activations to e4m3 before each product; with "static", by a scale that the checkpoint has measured.
  const std::string activations = PAGODA_TRY(keys.text_or("activation_scheme", "dynamic"));
  scheme.fp8_input = activations == "dynamic" || activations == "static";
  out.schemes.push_back(std::move(scheme));
  keys.irrelevant({"activation_scale_ub", "modules_to_not_convert", "ignored_layers", "ignore", "kv_cache_scheme",
                   "dequantize", "scale_fmt"});
  return Ok{};
}

/// How compressed-tensors keeps weights; of mixed ones each group says its own.
Status require_compressed_format(const Keys& keys) {
  return keys.require("format", "dense",
                      {"dense", "pack-quantized", "int-quantized", "float-quantized", "naive-quantized",
                       "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision"});
}

/// `actorder` is a name, or true; "weight" and "static" leave the columns where they are.
Result<bool> read_ordered(const Keys& weights) {
  if (!weights.contains("actorder")) return false;
  const Value* value = weights.config().find(weights.full("actorder"));
  if (value->get_if<bool>() != nullptr) return weights.flag_or("actorder", false);
  PAGODA_TRY(weights.require("actorder", "", {"", "group", "weight", "static", "dynamic"}));
  const std::string name = PAGODA_TRY(weights.text_or("actorder", ""));
  return name == "group" || name == "dynamic";
}

Status read_config_group(const Keys& group, Quantization& out) {
  group.irrelevant({"input_activations", "output_activations"});
  PAGODA_TRY(require_compressed_format(group));
  const Keys weights(group.config(), group.full("weights."));
  if (!group.config().contains_prefix(weights.prefix())) return Ok{};
  QuantScheme scheme = PAGODA_TRY(read_block(weights, "block_structure"));
  const Keys inputs(group.config(), group.full("input_activations."));
  scheme.fp8_input =
      PAGODA_TRY(inputs.integer_or("num_bits", 0, 0, 32)) == 8 && PAGODA_TRY(inputs.text_or("type", "int")) == "float";
  scheme.bits = PAGODA_TRY(weights.integer_or("num_bits", 8, 1, 32));
  scheme.group = PAGODA_TRY(read_group(weights, "group_size"));
  scheme.symmetric = PAGODA_TRY(weights.flag_or("symmetric", true));
  scheme.strategy = PAGODA_TRY(weights.text_or("strategy", scheme.group > 0 ? "group" : "tensor"));
  PAGODA_TRY(weights.require("strategy", scheme.strategy, {"tensor", "channel", "group", "block", "tensor_group"}));
  PAGODA_TRY(weights.require("type", "int", {"int", "float"}));
  scheme.type = PAGODA_TRY(weights.text_or("type", "int"));
  scheme.ordered = PAGODA_TRY(read_ordered(weights));
  if (PAGODA_TRY(weights.flag_or("dynamic", false))) {
    return weights.refuse("dynamic", "true", "weights that are quantised in the file");
  }
  weights.irrelevant({"observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  if (group.contains("targets")) {
    const StringList& targets = *PAGODA_TRY(group.config().texts(group.full("targets")));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::string_view target = targets[i];
      if (target.starts_with(kExpression)) {
        Result<ModulePattern> pattern = ModulePattern::compile(target.substr(kExpression.size()));
        if (!pattern.ok()) {
          return fail(pattern.error().code, "{}: {}: {}", group.config().source(), group.full("targets"),
                      pattern.error().message);
        }
        scheme.patterns.push_back(std::move(*pattern));
      } else {
        scheme.targets.emplace_back(target);
      }
    }
  }
  out.schemes.push_back(std::move(scheme));
  return Ok{};
}

/// Names of the objects right below `prefix`.
std::vector<std::string> children(const RawConfig& config, const std::string& prefix) {
  std::set<std::string> names;
  for (const std::string& key : config.unread_keys()) {
    if (key.starts_with(prefix)) names.insert(key.substr(prefix.size(), key.find('.', prefix.size()) - prefix.size()));
  }
  return {names.begin(), names.end()};
}

Status read_compressed_tensors(const Keys& keys, Quantization& out) {
  PAGODA_TRY(require_compressed_format(keys));
  PAGODA_TRY(keys.require("sparsity_config.format", "dense", {"dense"}));
  for (const std::string& name : children(keys.config(), keys.full("config_groups."))) {
    PAGODA_TRY(read_config_group(Keys(keys.config(), keys.full("config_groups.") + name + "."), out));
  }
  keys.irrelevant({"ignore", "quantization_status", "global_compression_ratio", "version", "kv_cache_scheme",
                   "sparsity_config", "run_compressed"});
  return Ok{};
}

Status read_bitsandbytes(const Keys& keys, Quantization&) {
  if (!PAGODA_TRY(keys.flag_or("load_in_4bit", false)) || PAGODA_TRY(keys.flag_or("load_in_8bit", false))) {
    return keys.refuse("load_in_8bit", "true", "bitsandbytes of 4 bits (load_in_4bit)");
  }
  PAGODA_TRY(keys.require("bnb_4bit_quant_type", "fp4", {"nf4", "fp4"}));
  PAGODA_TRY(keys.require("bnb_4bit_quant_storage", "uint8", {"uint8"}));
  keys.irrelevant({"_load_in_4bit", "_load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_use_double_quant",
                   "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_skip_modules",
                   "llm_int8_threshold"});
  return Ok{};
}

Status read_modelopt(const Keys& keys, Quantization&) {
  PAGODA_TRY(keys.require("quant_algo", "FP8", {"FP8", "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION"}));
  for (const std::string_view key : {"has_zero_point", "pre_quant_scale"}) {
    if (PAGODA_TRY(keys.flag_or(key, false))) return keys.refuse(key, "true", "weights without it");
  }
  keys.irrelevant({"quant_method", "kv_cache_quant_algo", "exclude_modules", "ignore", "config_groups", "producer",
                   "kv_cache_scheme", "group_size", "quantized_layers"});
  return Ok{};
}

Status read_mlx(const Keys& keys, Quantization& out) {
  QuantScheme scheme;
  out.mode = PAGODA_TRY(keys.text_or("mode", "affine"));
  PAGODA_TRY(keys.require("mode", "affine", {"affine", "mxfp4", "mxfp8", "nvfp4"}));
  scheme.bits = PAGODA_TRY(keys.integer_or("bits", 4, 1, 8));
  scheme.group = PAGODA_TRY(keys.integer_or("group_size", 64, 1, kMostColumns));
  out.schemes.push_back(scheme);
  // transformers wants to see it too: the same object twice.
  keys.config().mark_tree_read("quantization_config");
  return Ok{};
}

}  // namespace

Result<const QuantScheme*> Quantization::scheme_of(std::string_view module) const {
  // A name is more than an expression, and that more than a class.
  for (const QuantScheme& scheme : schemes) {
    if (std::ranges::find(scheme.targets, module) != scheme.targets.end()) return &scheme;
  }
  for (const QuantScheme& scheme : schemes) {
    for (const ModulePattern& pattern : scheme.patterns) {
      if (PAGODA_TRY(pattern.matches(module))) return &scheme;
    }
  }
  for (const QuantScheme& scheme : schemes) {
    if (std::ranges::find(scheme.targets, kAllLinear) != scheme.targets.end()) return &scheme;
  }
  const bool only = schemes.size() == 1 && schemes.front().targets.empty() && schemes.front().patterns.empty();
  return only ? &schemes.front() : nullptr;
}

Result<Quantization> read_quantization(const RawConfig& config, const std::string& folder) {
  Quantization out;
  const Keys keys(config, "quantization_config.");
  const std::string method = PAGODA_TRY(keys.text_or("quant_method", ""));
  if (method.empty() && config.contains_prefix("quantization.")) {
    out.method = QuantMethod::kMlx;
    out.prefix = "quantization.";
    PAGODA_TRY(read_mlx(Keys(config, out.prefix), out));
    return out;
  }
  if (!config.contains_prefix("quantization_config.")) {
    const std::string path = folder + "/hf_quant_config.json";
    std::error_code error;
    if (folder.empty() || !std::filesystem::exists(path, error)) return out;
    const RawConfig own = PAGODA_TRY(read_json_config(path));
    PAGODA_TRY(read_modelopt(Keys(own, "quantization."), out));
    own.mark_tree_read("producer");
    for (const std::string& key : own.unread_keys()) {
      return fail(ErrorCode::kConfigUnknown, "{}: Pagoda does not know the key {}, which may change the result", path,
                  key);
    }
    out.method = QuantMethod::kModelOpt;
    return out;
  }
  out.prefix = keys.prefix();
  struct Known {
    std::string_view name;
    QuantMethod method;
    Status (*read)(const Keys&, Quantization&);
  };
  static constexpr Known kKnown[] = {{"gptq", QuantMethod::kGptq, read_gptq},
                                     {"awq", QuantMethod::kAwq, read_awq},
                                     {"fp8", QuantMethod::kFp8, read_fp8},
                                     {"fbgemm_fp8", QuantMethod::kFp8, read_fp8},
                                     {"compressed-tensors", QuantMethod::kCompressedTensors, read_compressed_tensors},
                                     {"bitsandbytes", QuantMethod::kBitsAndBytes, read_bitsandbytes},
                                     {"modelopt", QuantMethod::kModelOpt, read_modelopt},
                                     {"mxfp4", QuantMethod::kMxfp4, [](const Keys& k, Quantization&) -> Status {
                                        k.irrelevant({"modules_to_not_convert", "dequantize"});
                                        return Ok{};
                                      }}};
  for (const Known& known : kKnown) {
    if (known.name != method) continue;
    out.method = known.method;
    PAGODA_TRY(known.read(keys, out));
    return out;
  }
  return fail(ErrorCode::kConfigUnknown, "{}: the weights are quantised by {} (quantization_config); Pagoda reads {}",
              config.source(), method.empty() ? std::string("a method that is not named") : io::quoted(method),
              kMethods);
}

}  // namespace pagoda::io
