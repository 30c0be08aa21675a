#include "pagoda/model.h"

#include <array>
#include <random>

#include "api/generation_state.h"
#include "api/model_state.h"
#include "api/prompt.h"
#include "text/stream_decoder.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMostChoices = 128;
constexpr std::int32_t kMostBest = 20;

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

Status check_request(const Request& request) {
  if (request.n < 1 || request.n > kMostChoices) {
    return fail_param(ErrorCode::kInvalidArgument, "n", "n must be from 1 to {}, not {}", kMostChoices, request.n);
  }
  const std::int32_t best = request.prompt_logprobs.value_or(0);
  if (best < 0 || best > kMostBest) {
    return fail_param(ErrorCode::kInvalidArgument, "prompt_logprobs", "prompt_logprobs must be from 0 to {}, not {}",
                      kMostBest, best);
  }
  if (request.deadline_ms && !(*request.deadline_ms > 0)) {
    return fail_param(ErrorCode::kInvalidArgument, "deadline_ms", "deadline_ms must be over 0, not {}",
                      *request.deadline_ms);
  }
  return Ok{};
}

std::optional<engine::Clock::time_point> deadline_of(const Request& request) {
  constexpr double kForever = 1e12;  // 30 years
  if (!request.deadline_ms || *request.deadline_ms > kForever) return std::nullopt;
  return engine::Clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(*request.deadline_ms * 1000));
}

Result<engine::Submission> submission_of(const Model::State& model, const Request& request) {
  engine::Submission out;
  out.sampling = PAGODA_TRY(api::resolve_sampling(model, request.sampling));
  out.prompt = PAGODA_TRY(api::prompt_ids(model, request, model.info.context));
  out.seed = out.sampling.seed ? *out.sampling.seed : random_seed();
  out.max_new_tokens = out.sampling.max_tokens.value_or(model.info.context);
  out.stop_ids = out.sampling.stop_ids;
  if (!out.sampling.ignore_eos) {
    const auto ends = model.tokenizer->end_of_generation_ids();
    out.stop_ids.insert(out.stop_ids.end(), ends.begin(), ends.end());
  }
  out.priority = request.priority;
  out.cache_prompt = request.cache_prompt;
  out.cache_salt = request.cache_salt;
  out.deadline = deadline_of(request);
  out.prompt_best = request.prompt_logprobs;
  return out;
}

Result<Generation> start(const std::shared_ptr<Model::State>& state, const Request& request) {
  if (state->engine == nullptr) {
    return fail(ErrorCode::kUnsupportedArgument, "{} was opened without weights", state->info.path);
  }
  PAGODA_TRY(check_request(request));
  PAGODA_TRY(api::tokenizer_of(*state));  // an answer is text
  engine::Submission first = PAGODA_TRY(submission_of(*state, request));
  const std::string echo = request.echo ? PAGODA_TRY(api::prompt_text(*state, request)) : std::string();
  const std::uint64_t seed = first.seed;
  const text::ReasoningSplitter reasoning = api::reasoning_of(*state, request, first.prompt);
  std::vector<engine::Submission> choices(static_cast<std::size_t>(request.n), std::move(first));
  for (std::int32_t i = 0; i < request.n; ++i) {
    choices[static_cast<std::size_t>(i)].choice = i;
    if (i > 0) choices[static_cast<std::size_t>(i)].prompt_best.reset();  // the same for each: told once, in choice 0
  }
  std::vector<std::shared_ptr<engine::Job>> jobs = PAGODA_TRY(state->engine->submit(std::move(choices)));
  return Generation(std::make_shared<Generation::State>(state, std::move(jobs), echo, reasoning, seed));
}

}  // namespace

Model::State::~State() {
  engine.reset();
  const std::scoped_lock lock(library->mutex);
  library->ledger.erase(this);
}

std::int64_t Model::State::kv_bytes_at(std::int64_t depth) const {
  std::int64_t bytes = 0;
  for (const kv::GroupConfig& group : kv_groups) {
    const std::int64_t bytes_per_token = group.bytes_per_block / group.block_size;
    bytes += bytes_per_token * (group.windowed() ? std::min(group.window, depth) : depth);
  }
  return bytes;
}

Model::Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

const ModelInfo& Model::info() const { return state_->info; }

Result<std::vector<std::int32_t>> Model::tokenize(std::string_view text, const TokenizeOptions& options) const {
  return api::encode_raw(*state_, text, options.special, options.bos);
}

Result<std::string> Model::detokenize(std::span<const std::int32_t> ids) const {
  PAGODA_TRY(api::check_ids(*state_, ids));
  return text::repair_utf8(PAGODA_TRY(api::tokenizer_of(*state_))->decode(ids, false));
}

std::string Model::token_bytes(std::int32_t id) const {
  const std::array ids = {id};
  if (state_->tokenizer == nullptr || !api::check_ids(*state_, ids).ok()) return {};
  return std::string(state_->tokenizer->piece(id));
}

bool Model::template_reads(std::string_view variable) const {
  return state_->chat_template && state_->chat_template->ok() && state_->chat_template->value().reads(variable);
}

const SamplingParams& Model::sampling_defaults() const { return state_->sampling_defaults; }

Result<std::string> Model::render(const Chat& chat) const {
  return std::move(PAGODA_TRY(api::render(*state_, chat)).text);
}

Result<std::vector<std::int32_t>> Model::prompt_ids(const Request& request) const {
  return api::prompt_ids(*state_, request);
}

Result<Generation> Model::generate(const Request& request) const {
  Result<Generation> generation = start(state_, request);
  if (!generation.ok()) state_->refusals.count(generation.error().code);
  return generation;
}

}  // namespace pagoda
