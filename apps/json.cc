#include "apps/json.h"

#include <nlohmann/json.hpp>

#include "apps/terminal.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json facts_json(std::span<const Fact> facts) {
  Json object = Json::object();
  for (const Fact& fact : facts) object[fact.name] = fact.value;
  return object;
}

Json support_json(std::span<const SupportRow> rows) {
  Json list = Json::array();
  for (const SupportRow& row : rows) {
    list.push_back(
        {{"operation", row.operation}, {"format", row.format}, {"device", row.device}, {"candidates", row.candidates}});
  }
  return list;
}

Json info_json(const ModelInfo& info) {
  return {{"model", info.name},
          {"path", info.path},
          {"architecture", info.architecture},
          {"format", info.format},
          {"file_bytes", info.file_bytes},
          {"parameters", info.num_parameters},
          {"vocabulary", info.vocabulary},
          {"layers", info.num_layers},
          {"hidden", info.hidden_size},
          {"trained_context", info.trained_context},
          {"chat_template", info.has_chat_template},
          {"ignored_keys", info.ignored_keys}};
}

}  // namespace

std::string to_json(std::span<const std::int32_t> ids) {
  return dump(Json(std::vector<std::int32_t>(ids.begin(), ids.end())));
}

std::string to_json(const BenchRow& row) {
  return dump({{"model", row.model},
               {"format", row.format},
               {"kv_dtype", row.kv_dtype},
               {"precision", row.precision},
               {"threads", row.threads},
               {"device", row.device},
               {"test", row.test},
               {"prompt", row.prompt},
               {"depth", row.depth},
               {"batch", row.batch},
               {"ms_per_step", row.ms_per_step},
               {"tok_s", row.tok_s},
               {"bytes_per_step", row.bytes_per_step},
               {"bandwidth_share", row.bandwidth_share},
               {"samples", row.samples}});
}

std::string to_json(const Quantized& quantized) {
  Json tensors = Json::array();
  for (const QuantizedTensor& tensor : quantized.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"layer", tensor.layer < 0 ? Json() : Json(tensor.layer)},
                       {"from", tensor.from},
                       {"to", tensor.to},
                       {"elements", tensor.elements},
                       {"bytes", tensor.bytes},
                       {"relative_rms", tensor.relative_rms},
                       {"largest_error", tensor.largest_error}});
  }
  return dump({{"from", quantized.from},
               {"format", quantized.format},
               {"bytes_read", quantized.bytes_read},
               {"bytes_written", quantized.bytes_written},
               {"seconds", quantized.seconds},
               {"tensors", tensors}});
}

std::string to_json(const Score& score) {
  return dump({{"tokens", score.tokens}, {"logprobs", score.logprobs}, {"perplexity", score.perplexity}});
}

std::string to_json(const Warmed& warmed) {
  return dump({{"gpu", warmed.gpu},
               {"architecture", warmed.architecture},
               {"folder", warmed.folder},
               {"kernels", warmed.packed + warmed.kept + warmed.compiled},
               {"packed", warmed.packed},
               {"kept", warmed.kept},
               {"compiled", warmed.compiled},
               {"seconds", warmed.seconds}});
}

std::string to_json(const Inspection& inspection, std::span<const SupportRow> support, bool tensors) {
  Json json = info_json(inspection.info);
  json["metadata"] = facts_json(inspection.metadata);
  json["spec"] = facts_json(inspection.spec);
  if (tensors) {
    json["tensors"] = Json::array();
    for (const TensorInfo& tensor : inspection.tensors) {
      json["tensors"].push_back({{"name", tensor.name},
                                 {"format", tensor.format},
                                 {"shape", tensor.shape},
                                 {"offset", tensor.offset},
                                 {"bytes", tensor.bytes}});
    }
  }
  if (!inspection.plan.empty()) {
    json["plan"] = Json::array();
    for (const PlanRow& row : inspection.plan) {
      json["plan"].push_back({{"stage", row.stage},
                              {"layers", row.layers},
                              {"candidate", row.candidate},
                              {"layout", row.layout},
                              {"reason", row.reason}});
    }
    json["memory"] = facts_json(inspection.memory);
  }
  if (!support.empty()) json["support"] = support_json(support);
  return dump(json);
}

std::string support_to_json(std::span<const SupportRow> support) {
  Json json;
  json["support"] = support_json(support);
  return dump(json);
}

std::string run_to_json(const ModelInfo& info, const Answer& answer) {
  const Answer::Choice& choice = answer.choices.front();
  const Timings& timings = choice.timings;
  return dump({{"model", info.name},
               {"device", info.device},
               {"prompt_tokens", answer.usage.prompt_tokens},
               {"cached_tokens", answer.usage.cached_tokens},
               {"completion_tokens", answer.usage.completion_tokens},
               {"token_ids", choice.ids},
               {"text", choice.text},
               {"reasoning", choice.reasoning},
               {"finish_reason", std::string(to_string(choice.finish))},
               {"seed", answer.seed},
               {"ignored_keys", info.ignored_keys},
               {"timings",
                {{"load_ms", info.load_ms},
                 {"first_token_ms", timings.first_token_ms},
                 {"prefill_ms", timings.prefill_ms},
                 {"prefill_tok_s", rate(timings.prefill_tokens, timings.prefill_ms)},
                 {"decode_ms", timings.decode_ms},
                 {"decode_tok_s", rate(timings.decode_tokens, timings.decode_ms)}}}});
}

std::string messages_json(const std::string& system, const std::string& user) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return dump(messages);
}

Result<std::vector<std::int32_t>> ids_from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto wrong = [] {
    return fail(ErrorCode::kInvalidArgument, "the ids must be a JSON list of whole numbers, as [1, 2, 3]");
  };
  if (!json.is_array()) return wrong();
  std::vector<std::int32_t> ids;
  for (const Json& element : json) {
    if (!element.is_number_integer()) return wrong();
    const auto id = element.get<std::int64_t>();
    if (id < 0 || id > INT32_MAX || (element.is_number_unsigned() && element.get<std::uint64_t>() > INT32_MAX)) {
      return fail(ErrorCode::kInvalidArgument, "the id {} is no token id", element.dump());
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

}  // namespace pagoda::apps
