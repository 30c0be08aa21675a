#include "server/protocol/sampling_fields.h"

#include <algorithm>
#include <cmath>

#include "base/to_float.h"
#include "server/protocol/kinds.h"
#include "server/protocol/token_text.h"

namespace pagoda::server {
namespace {

constexpr std::size_t kMostStops = 16;
/// Each prompt keeps an automaton of them, and each of n choices a copy of the salt.
constexpr std::int64_t kMostStopCharacters = 256;
constexpr std::int64_t kMostSaltCharacters = 256;

Status read_stop(const Json& json, ApiRequest& out) {
  std::vector<std::string>& stops = out.common.sampling.stop;
  const auto add = [&stops](const Json& item) -> Status {
    if (!item.is_string() || item.text.empty()) return wrong("must be a text, or a list of texts, none of them empty");
    if (num_characters(item.text) > kMostStopCharacters) {
      return wrong("must have texts of at most {} characters", kMostStopCharacters);
    }
    stops.push_back(item.text);
    return Ok{};
  };
  if (!json.is_array()) return add(json);
  if (json.items.size() > kMostStops) return wrong("must have at most {} texts", kMostStops);
  for (const Json& item : json.items) PAGODA_TRY(add(item));
  return Ok{};
}

/// A regular expression of the whole numbers from 0 to `most`, as they are usually written.
std::string numbers_up_to(std::int64_t most) {
  const std::string digits = std::to_string(most);
  std::string out = "^(0";
  for (std::size_t n = 1; n < digits.size(); ++n) out += format("|[1-9][0-9]{{{}}}", n - 1);
  for (std::size_t i = 0; i <= digits.size(); ++i) {  // the first i digits equal, the next smaller
    const char least = i == 0 ? '1' : '0';
    if (i == digits.size()) {
      out += "|" + digits;
    } else if (digits[i] > least) {
      out += format("|{}[{}-{}][0-9]{{{}}}", digits.substr(0, i), least, static_cast<char>(digits[i] - 1),
                    digits.size() - i - 1);
    }
  }
  return out + ")$";
}

Kind logit_bias(std::int64_t vocabulary) {
  return {format(R"({{"type":"object","propertyNames":{{"pattern":{}}},"maxProperties":{},)"
                 R"("additionalProperties":{{"type":"number","minimum":-100,"maximum":100}}}})",
                 quoted(numbers_up_to(vocabulary - 1)), kMostIds),
          [vocabulary](const Json& json, ApiRequest& out) -> Status {
            if (!json.is_object()) return wrong_kind("an object of token ids and numbers", json);
            if (json.members.size() > kMostIds) return wrong("must name at most {} ids", kMostIds);
            for (const auto& [key, value] : json.members) {
              const bool plain = key == "0" || (!key.empty() && key.front() >= '1' && key.front() <= '9');
              const auto id = plain ? Json{.kind = Json::Kind::kNumber, .text = key}.integer() : std::nullopt;
              if (!id || *id >= vocabulary || key.find_first_not_of("0123456789") != std::string::npos) {
                return wrong("must name token ids from 0 to {}", vocabulary - 1);
              }
              const auto bias = value.number();
              if (!bias || !(std::abs(*bias) <= 100)) return wrong("must give each id a number from -100 to 100");
              out.common.sampling.logit_bias.emplace_back(static_cast<std::int32_t>(*id), static_cast<float>(*bias));
            }
            return Ok{};
          }};
}

Status read_stream_options(const Json& json, ApiRequest& out) {
  if (!json.is_object()) return wrong_kind("an object", json);
  for (const auto& [name, value] : json.members) {
    if (name != "include_usage") return wrong("knows include_usage alone");
    if (!value.is_bool()) return wrong("must have true or false as include_usage");
    out.include_usage = value.is(Json::Kind::kTrue);
  }
  out.has_stream_options = true;
  return Ok{};
}

template <class T>
std::function<void(double, ApiRequest&)> sampling(T SamplingParams::*member) {
  return [member](double value, ApiRequest& out) { out.common.sampling.*member = to_float(value); };
}

}  // namespace

void add_sampling(std::vector<Field>& out, const ServedModel& served) {
  out.push_back(nullable("temperature", number({0, 2}, sampling(&SamplingParams::temperature)),
                         "0: always the likeliest token. Left out: what the checkpoint declares, else 1."));
  out.push_back(nullable("top_p", number({0, 1, true}, sampling(&SamplingParams::top_p)),
                         "Draw from the likeliest tokens of this mass."));
  out.push_back(optional("top_k",
                         integer(-1, kMostTokens,
                                 [](std::int64_t k, ApiRequest& request) {
                                   request.common.sampling.top_k = std::max(static_cast<std::int32_t>(k), 0);
                                 }),
                         "Draw from this many likeliest tokens; 0 or -1: all."));
  out.push_back(optional("min_p", number({0, 1}, sampling(&SamplingParams::min_p)),
                         "No token below this share of the likeliest."));
  out.push_back(nullable("presence_penalty", number({-2, 2}, sampling(&SamplingParams::presence_penalty)),
                         "Taken off the logit of each token that the answer has."));
  out.push_back(nullable("frequency_penalty", number({-2, 2}, sampling(&SamplingParams::frequency_penalty)),
                         "Taken off for each time that the answer has it."));
  out.push_back(optional("repetition_penalty", number({0.01, 100}, sampling(&SamplingParams::repetition_penalty)),
                         "Over 1: repeat less, prompt included."));
  out.push_back(nullable("logit_bias", logit_bias(served.vocabulary), "Added to the logits of token ids."));
  out.push_back(nullable("seed",
                         integer(INT64_MIN, INT64_MAX,
                                 [](std::int64_t seed, ApiRequest& request) {
                                   request.common.sampling.seed = static_cast<std::uint64_t>(seed);
                                 }),
                         "Choice i draws from the stream (seed, i). A negative seed is its 64 bits."));
  out.push_back(nullable(
      "stop",
      {format(
           R"({{"anyOf":[{{"type":"string","minLength":1,"maxLength":{0}}},{{"type":"array","maxItems":{1},"items":{{"type":"string","minLength":1,"maxLength":{0}}}}}]}})",
           kMostStopCharacters, kMostStops),
       read_stop},
      "The answer ends before the earliest of these texts, in its reasoning too. Marks around that are no text."));
  out.push_back(
      optional("stop_token_ids",
               {format(R"({{"type":"array","maxItems":{},"items":{}}})", kMostIds, id_schema(served.vocabulary)),
                [vocabulary = served.vocabulary](const Json& json, ApiRequest& request) -> Status {
                  request.common.sampling.stop_ids = PAGODA_TRY(read_ids(json, vocabulary));
                  if (request.common.sampling.stop_ids.size() <= kMostIds) return Ok{};
                  return wrong("must have at most {} ids", kMostIds);
                }},
               "The answer ends at any of these tokens."));
  out.push_back(
      optional("min_tokens",
               integer(0, kMostTokens,
                       [](std::int64_t tokens, ApiRequest& request) { request.common.sampling.min_tokens = tokens; }),
               "The model's end marks count only after this many tokens; a limit that comes first ends the answer all "
               "the same."));
  out.push_back(optional("ignore_eos",
                         boolean([](bool yes, ApiRequest& request) { request.common.sampling.ignore_eos = yes; }),
                         "Go on after the model's end marks."));
  out.push_back(nullable(
      "n", integer(1, 128, [](std::int64_t n, ApiRequest& request) { request.n = static_cast<std::int32_t>(n); }),
      "Choices for each prompt."));
  out.push_back(optional("prompt_logprobs",
                         integer(0, 20,
                                 [](std::int64_t best, ApiRequest& request) {
                                   request.common.prompt_logprobs = static_cast<std::int32_t>(best);
                                 }),
                         "Log-probabilities of the prompt's tokens and of this many best ones; not with stream."));
  out.push_back(
      nullable("stream", boolean([](bool yes, ApiRequest& request) { request.stream = yes; }), "Server-sent events."));
  out.push_back(
      nullable("stream_options",
               {R"({"type":"object","properties":{"include_usage":{"type":"boolean"}},"additionalProperties":false})",
                read_stream_options},
               "Only with stream."));
  out.push_back(optional("return_token_ids", boolean([](bool yes, ApiRequest& request) { request.returns_ids = yes; }),
                         "Give ids beside the texts: token_ids of each choice or of each piece of a stream, and "
                         "prompt_token_ids once."));
  out.push_back(optional("cache_salt",
                         short_text(kMostSaltCharacters, [](const std::string& salt,
                                                            ApiRequest& request) { request.common.cache_salt = salt; }),
                         "Cached prefixes are shared only between requests of the same salt."));
  out.push_back(optional("cache_prompt",
                         boolean([](bool yes, ApiRequest& request) { request.common.cache_prompt = yes; }),
                         "false: the request takes nothing from the prefix cache and leaves nothing in it; each of n "
                         "choices computes the prompt."));
}

}  // namespace pagoda::server
