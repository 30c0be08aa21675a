// Values shared by the public interface and every rung of the engine: errors, results, sampling parameters.
// Includes nothing of Pagoda's own, so that each of these ideas has exactly one definition.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace pagoda {

/// What went wrong, one code for each rule that can be broken. `kind_of` groups the codes.
enum class ErrorCode : std::uint16_t {
  // The request: wrong usage.
  kInvalidArgument = 100,
  kUnsupportedArgument,
  // The request: failed at run time.
  kPromptTooLong = 200,
  kEmptyPrompt,
  kTemplateFailed,   ///< the template raised, or cannot be parsed
  kTemplateLimit,    ///< the template ran past its step, depth, output or time limit
  kTemplateMissing,  ///< the model has no chat template
  kCancelled,
  kDeadlineExceeded,
  kCacheCapacity,  ///< can never fit: more cache blocks than exist
  kCachePressure,  ///< does not fit now: may be tried again when others end
  kQueueFull,
  kNonFiniteLogits,
  kOutOfMemory,
  kIoFailed,
  kInternal,
  // The model or a file of it is rejected.
  kFileNotFound = 300,
  kFileUnreadable,
  kFileChanged,  ///< the file shrank or was replaced while it was read
  kFileEmpty,
  kNotAModel,
  kGgufMagic,
  kGgufByteOrder,
  kGgufVersion,
  kGgufTruncated,  ///< the file ends inside its header
  kGgufTensorCount,
  kGgufKeyCount,
  kGgufStringLength,
  kGgufStringEncoding,
  kGgufKeyName,
  kGgufKeyDuplicate,
  kGgufValueType,
  kGgufBoolValue,
  kGgufArrayLength,
  kGgufArrayNesting,
  kGgufAlignment,
  kGgufSplit,
  kGgufTensorName,
  kGgufTensorDuplicate,
  kGgufTensorRank,
  kGgufTensorDimension,
  kGgufTensorSize,
  kGgufTensorType,
  kGgufTensorBlock,  ///< the first dimension is no multiple of the format's block
  kGgufTensorOffset,
  kGgufTensorRange,
  kGgufTensorOverlap,
  // JSON of a checkpoint: configurations, the index of shards, the header of a safetensors file.
  kJsonSyntax,
  kJsonEncoding,  ///< no valid UTF-8
  kJsonDepth,
  kJsonKeyDuplicate,
  kJsonLimit,               ///< larger than any real file of its kind
  kSafetensorsTruncated,    ///< shorter than the length of a header
  kSafetensorsHeaderLimit,  ///< the header claims more than 100 MB
  kSafetensorsHeaderLength,
  kSafetensorsHeaderStart,
  kSafetensorsHeaderPadding,
  kSafetensorsMetadata,
  kSafetensorsTensorCount,
  kSafetensorsTensorName,
  kSafetensorsTensorField,
  kSafetensorsTensorType,
  kSafetensorsTensorShape,
  kSafetensorsTensorSize,    ///< shape, type and bytes contradict each other, or their product overflows
  kSafetensorsTensorOffset,  ///< no pair of offsets
  kSafetensorsTensorRange,
  kSafetensorsTensorOverlap,
  kSafetensorsGap,  ///< bytes of the file belong to no tensor
  kShardIndex,
  kShardName,  ///< no plain file name, or a link out of the directory
  kShardMissing,
  kShardTensorMissing,   ///< the index places a tensor in a file that has none of that name
  kShardTensorUnlisted,  ///< a file holds a tensor that the index does not name, or places elsewhere
  kConfigMissing,
  kConfigType,
  kConfigRange,
  kConfigUnknown,  ///< a key that would change the arithmetic and that nothing reads
  kArchitectureUnknown,
  kTensorMissing,
  kTensorUnclaimed,
  kTensorShape,
  kFormatUnsupported,
  kTokenizerMissing,
  kTokenizerUnsupported,
  kTokenizerInvalid,
  // The device is missing or not fit.
  kDeviceMissing = 400,
  kDeviceUnfit,
  kDeviceMemory,
  kDeviceLost,
};

/// Who has to act: the caller's arguments, this run, the model file, or the device.
enum class ErrorKind { kUsage, kRuntime, kModel, kDevice };

constexpr ErrorKind kind_of(ErrorCode code) {
  const auto value = static_cast<std::uint16_t>(code);
  if (value < 200) return ErrorKind::kUsage;
  if (value < 300) return ErrorKind::kRuntime;
  return value < 400 ? ErrorKind::kModel : ErrorKind::kDevice;
}

/// An error of the world: a code and one sentence that names the thing, what was found, and what would do.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = {};
  std::string param = {};  ///< the argument or request field at fault; empty if none
};

/// The success value of an operation that returns nothing.
struct Ok {};

/// A value or an error. Reading the side that is not there aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return require<0>(); }
  const T& value() const& { return const_cast<Result*>(this)->template require<0>(); }
  T&& value() && { return std::move(require<0>()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & { return require<1>(); }
  const Error& error() const& { return const_cast<Result*>(this)->template require<1>(); }
  Error&& error() && { return std::move(require<1>()); }

 private:
  template <std::size_t I>
  auto& require() {
    if (state_.index() != I) {
      const auto* error = std::get_if<1>(&state_);
      std::fprintf(stderr, "pagoda: a Result was read on its missing side: %s\n",
                   error != nullptr ? error->message.c_str() : "it holds a value");
      std::abort();
    }
    return *std::get_if<I>(&state_);
  }

  std::variant<T, Error> state_;
};

using Status = Result<Ok>;

/// How tokens are drawn. An empty optional means: what the checkpoint declares, else the default named here.
/// Order: logit bias, repetition, presence and frequency penalties, temperature, top-k, top-p, min-p, draw.
struct SamplingParams {
  std::optional<float> temperature = {};         ///< ≥ 0; 0 is greedy with ties to the lower id. Default 0
  std::optional<std::int32_t> top_k = {};        ///< ≥ 0; 0 is off. Default 0
  std::optional<float> top_p = {};               ///< in (0, 1]. Default 1
  std::optional<float> min_p = {};               ///< in [0, 1]. Default 0
  std::optional<float> repetition_penalty = {};  ///< 1e-6 … 1e6, over prompt and output. Default 1
  float presence_penalty = 0;                    ///< in [-2, 2], over output
  float frequency_penalty = 0;                   ///< in [-2, 2], over output
  std::vector<std::pair<std::int32_t, float>> logit_bias = {};  ///< ids inside the vocabulary, each at most once
  std::optional<std::uint64_t> seed = {};                       ///< none: a random one, which is reported
  std::optional<std::int64_t> max_tokens = {};                  ///< ≥ 0; none: up to the context's end
  std::int64_t min_tokens = 0;                                  ///< no end of sequence before this many
  std::vector<std::string> stop = {};       ///< output ends before the earliest match in either channel
  std::vector<std::int32_t> stop_ids = {};  ///< output ends at any of these
  bool ignore_eos = false;
  std::optional<std::int32_t> logprobs = {};  ///< report the chosen token's and this many best log-probabilities
};

/// Why a choice ended.
enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kCancelled, kError };

constexpr std::string_view to_string(FinishReason reason) {
  constexpr std::string_view names[] = {"none", "stop", "length", "cancelled", "error"};
  return names[static_cast<std::uint8_t>(reason)];
}

/// The log-probability of one token, of the model's raw distribution.
struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
};

/// Tokens that a request really processed.
struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache
  std::int64_t completion_tokens = 0;
};

}  // namespace pagoda
