#include "pagoda/score.h"

#include <cmath>

#include "api/model_state.h"
#include "api/prompt.h"

namespace pagoda {
namespace {

/// The log-probability of `id` in a row of logits, in double precision.
double log_probability(std::span<const float> logits, std::int32_t id) {
  double most = logits[0];
  for (const float logit : logits) most = std::max(most, static_cast<double>(logit));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - most - std::log(sum);
}

/// Blocks until the job has ended; its hook must not be used otherwise.
void wait_for(engine::Job& job) {
  std::atomic<std::int32_t> changes{0};
  job.on_ready([&changes] {
    changes.fetch_add(1, std::memory_order_release);
    changes.notify_one();
  });
  for (;;) {
    const std::int32_t seen = changes.load(std::memory_order_acquire);
    if (job.ended()) break;
    changes.wait(seen, std::memory_order_acquire);
  }
  job.on_ready({});
}

}  // namespace

Result<Score> score(const Model& model, const ScoreRequest& request) {
  const std::shared_ptr<Model::State>& state = model.state();
  if (state->engine == nullptr) {
    return fail(ErrorCode::kUnsupportedArgument, "{} was opened without weights", state->info.path);
  }
  Request prompt;
  std::visit([&](const auto& text) { prompt.prompt = text; }, request.text);
  Score score;
  score.tokens = PAGODA_TRY(api::prompt_ids(*state, prompt, state->info.context));
  engine::Submission submission;
  submission.prompt = score.tokens;
  submission.prompt_best = 0;
  if (request.on_logits) {
    submission.on_logits = [&](std::int64_t position, std::span<const float> logits) {
      const auto next = static_cast<std::size_t>(position + 1);
      if (next < score.tokens.size()) score.logprobs.push_back(log_probability(logits, score.tokens[next]));
      return request.on_logits(position, logits);
    };
  }
  std::vector<engine::Submission> one;
  one.push_back(std::move(submission));
  const std::vector<std::shared_ptr<engine::Job>> jobs = PAGODA_TRY(state->engine->submit(std::move(one)));
  wait_for(*jobs.front());
  const engine::Job& job = *jobs.front();
  if (job.ending().error) return *job.ending().error;
  for (std::int64_t i = 0; !request.on_logits && i < job.num_prompt_scores(); ++i) {
    score.logprobs.push_back(job.prompt_scored(i).logprob);
  }
  double sum = 0;
  for (std::size_t i = 0; i < score.logprobs.size(); ++i) {
    if (std::isnan(score.logprobs[i])) {  // minus infinity is an id that is never drawn
      return fail(ErrorCode::kNonFiniteLogits, "the model's logits at position {} are not finite", i);
    }
    sum += score.logprobs[i];
  }
  score.perplexity = score.logprobs.empty() ? 1 : std::exp(-sum / static_cast<double>(score.logprobs.size()));
  return score;
}

}  // namespace pagoda
