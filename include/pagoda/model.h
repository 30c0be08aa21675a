// A model: opened once, asked by any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pagoda/generation.h"
#include "pagoda/library.h"
#include "pagoda/progress.h"
#include "pagoda/request.h"
#include "pagoda/stats.h"
#include "pagoda/types.h"

namespace pagoda {

/// How exact the CPU computes: see `pagoda inspect --plan`.
enum class Precision : std::uint8_t { kStandard, kHigh };

constexpr std::string_view to_string(Precision precision) {
  return precision == Precision::kStandard ? "standard" : "high";
}

/// How a model is opened. A value outside its range is kInvalidArgument and names the field.
struct ModelOptions {
  /// "auto", "cpu", "cuda", "cuda:N" or "reference" (every operation in double precision: slow, and the truth).
  std::string device = "auto";
  Precision precision = Precision::kStandard;
  bool deterministic = false;  ///< GPU only: a row's bits never depend on its batch. The CPU is always so

  /// GPU only: measure at start (5 seconds at most, then kept in the cache folder) which of two ways to launch the same
  /// kernels is faster. Results stay the same bits.
  bool tune = false;

  /// Tokens of one sequence at most, prompt and answer; none: what the model was made for, or less if memory is short.
  /// In any case no more than the KV cache holds.
  std::optional<std::int64_t> context{};
  std::string kv_dtype = "auto";  ///< "auto", "f16", "bf16" or "fp8_e4m3"
  /// The size of the KV cache over all sequences, in tokens or in bytes (not both). None: a full context for each of
  /// the sequences that may run at once, as far as memory allows, and one at least: on a CPU half of what is available
  /// when the weights are loaded, on a GPU what is left when all else is in place.
  std::optional<std::int64_t> kv_tokens{};
  std::optional<std::int64_t> kv_bytes{};
  std::int64_t block_size = 16;                 ///< tokens a block: a power of two from 8 to 256
  std::optional<std::int64_t> prefill_chunk{};  ///< prompt tokens a step at most, ≥ 1
  std::int64_t max_running = 16;                ///< sequences that run at once, in [1, 1024]
  std::int64_t max_queued = 1024;               ///< requests that wait; one more is kQueueFull

  std::vector<std::string> ignore_keys{};  ///< configuration keys of the file to pass over, by name
  /// Jinja text that replaces the file's own template. Unlike that, it must be one that can be parsed.
  std::optional<std::string> chat_template{};
  /// The name of a weight format: the path is a config.json, and its weights are made up, the same ones each time (for
  /// measurements). Also a mix of formats by tensor, as q4_k_m. Empty: the model's own weights.
  std::string dummy_weights{};
  /// The format of their head and embedding, which checkpoints of few bits often keep in bf16. Empty: as the others.
  std::string dummy_head{};
  /// A Hugging Face directory whose tokenizer, chat template and sampling defaults are used in place of the model's own
  /// (for weights made up). Empty: the model's own.
  std::string tokenizer{};
  bool weights = true;      ///< false: header and tokenizer only; enough to tokenize and render
  ProgressSink progress{};  ///< called while the model opens
};

/// What a model is and how it runs here.
struct ModelInfo {
  std::string path{};
  std::string name{};          ///< the file's or folder's name without its ending
  std::string architecture{};  ///< as the file calls it
  std::string format{};        ///< the weights' format: that of most bytes
  std::int64_t file_bytes = 0;
  std::int64_t num_parameters = 0;
  std::int64_t vocabulary = 0;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t trained_context = 0;  ///< the context that the model was made for
  bool has_tokenizer = true;         ///< without one, ids can be scored and measured, and text is refused
  bool has_chat_template = false;
  std::vector<std::string> ignored_keys{};  ///< of ModelOptions::ignore_keys, those that the file has

  // The rest is filled only if the weights were loaded.
  std::string device{};       ///< "cpu", "reference" or "cuda:N"
  std::string device_name{};  ///< as the processor or GPU calls itself
  Precision precision = Precision::kStandard;
  std::int32_t threads = 0;
  std::int64_t context = 0;  ///< tokens of one sequence at most
  std::string kv_dtype{};
  std::int64_t kv_tokens = 0;  ///< of all sequences together
  std::int64_t kv_bytes = 0;
  std::int64_t most_choices = 0;  ///< that may run and wait at once
  std::int64_t block_size = 0;
  std::int64_t prefill_chunk = 0;
  std::int64_t weight_bytes = 0;
  double load_ms = 0;
};

struct TokenizeOptions {
  bool special = false;  ///< the texts of control tokens count as those tokens
  bool bos = false;      ///< add what the model asks for around raw text
};

/// A handle; copies name the same model, which closes with the last of them and of its generations and sessions.
/// Any thread may call any function.
class Model {
 public:
  /// Opens a GGUF file or a Hugging Face directory. Errors: ErrorKind::kUsage for options, kModel for the file, kDevice
  /// for the device; the sentence names file, key or tensor. Nothing is left behind by an open that fails.
  static Result<Model> open(const Library& library, const std::string& path, ModelOptions options = {});

  const ModelInfo& info() const;

  /// The ids of a text. What is no UTF-8 is kInvalidArgument, with the offset.
  Result<std::vector<std::int32_t>> tokenize(std::string_view text, const TokenizeOptions& options = {}) const;

  /// The text of ids, control tokens included, as valid UTF-8. An id outside the vocabulary is kInvalidArgument.
  Result<std::string> detokenize(std::span<const std::int32_t> ids) const;

  /// The bytes that one token stands for in a text; they need not be whole characters. Empty for an id outside the
  /// vocabulary.
  std::string token_bytes(std::int32_t id) const;

  /// Whether the chat template reads this name as a variable, as "enable_thinking"; false without a template.
  bool template_reads(std::string_view variable) const;

  /// What the checkpoint declares of how tokens are drawn.
  const SamplingParams& sampling_defaults() const;

  /// The prompt that the chat template makes. Errors: kTemplateMissing, kTemplateFailed with the template's words,
  /// kTemplateLimit, kInvalidArgument for what is no JSON.
  Result<std::string> render(const Chat& chat) const;

  /// The prompt's ids, as `generate` would feed them.
  Result<std::vector<std::int32_t>> prompt_ids(const Request& request) const;

  /// Starts a request. Errors: kInvalidArgument and its kin for parameters out of range, kEmptyPrompt, kPromptTooLong
  /// with both numbers (nothing is ever cut), kQueueFull, kUnsupportedArgument if the model was opened
  /// without weights; rendering's errors.
  Result<Generation> generate(const Request& request) const;

  Stats stats() const;

  /// Whether requests can be served: the error that ended the engine, if one has (kDeviceLost and its kin,
  /// kOutOfMemory, kInternal); every call of `generate` returns it too. A step that hangs shows in Stats::stalled_ms.
  Status health() const;

  struct State;
  /// For the library's own use.
  explicit Model(std::shared_ptr<State> state);
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace pagoda
