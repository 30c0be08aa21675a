#include "server/protocol/writer.h"

#include <utility>

#include "pagoda/library.h"
#include "server/json/json.h"
#include "server/protocol/token_text.h"

namespace pagoda::server {
namespace {

std::string_view finish_name(FinishReason reason) { return reason == FinishReason::kLength ? "length" : "stop"; }

void write_head(const AnswerHead& head, std::string_view object, JsonWriter& out) {
  out.open_object().member("id", head.id).member("object", object).member("created", head.created);
  out.member("model", head.model);
  out.member("system_fingerprint", "pagoda-" + std::string(Library::version()));
}

void write_usage(const Usage& usage, JsonWriter& out) {
  out.key("usage").open_object().member("prompt_tokens", usage.prompt_tokens);
  out.member("completion_tokens", usage.completion_tokens);
  out.member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.key("prompt_tokens_details").open_object().member("cached_tokens", usage.cached_tokens).close_object();
  out.close_object();
}

void write_finish(FinishReason reason, JsonWriter& out) {
  out.key("finish_reason");
  reason == FinishReason::kNone ? out.null() : out.value(finish_name(reason));
}

/// [null, {...}, ...]: the first token has no past.
void write_prompt_logprobs(const std::vector<TokenChoice>& logprobs, const Model& model, JsonWriter& out) {
  out.key("prompt_logprobs").open_array().null();
  for (const TokenChoice& choice : logprobs) write_prompt_logprob(choice, model, out);
  out.close_array();
}

void write_ids(std::string_view name, const std::vector<std::int32_t>& ids, JsonWriter& out) {
  out.key(name).open_array();
  for (const std::int32_t id : ids) out.value(id);
  out.close_array();
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Whole answers.

struct WholeChoice {
  std::string content;
  std::string reasoning;
  std::vector<std::int32_t> ids;
  std::vector<TokenChoice> logprobs;
  std::vector<TokenChoice> prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
};

class WholeWriter : public AnswerWriter {
 public:
  WholeWriter(AnswerHead head, const ApiRequest& request, const Model& model, std::vector<ListedPrompt> prompts)
      : head_(std::move(head)),
        model_(model),
        prompts_(std::move(prompts)),
        n_(static_cast<std::size_t>(request.n)),
        has_logprobs_(request.common.sampling.logprobs.has_value()),
        has_prompt_logprobs_(request.asks_prompt_logprobs),
        echoes_(request.common.echo),
        returns_ids_(request.returns_ids),
        choices_(request.requests.size() * n_) {}

  std::string take(std::size_t prompt, const Event& event) override {
    WholeChoice& choice = choices_[prompt * n_ + static_cast<std::size_t>(event.choice)];
    (event.channel == Channel::kReasoning ? choice.reasoning : choice.content) += event.text;
    append(choice.ids, event.ids);
    append(choice.logprobs, event.logprobs);
    append(choice.prompt_logprobs, event.prompt_logprobs);
    choice.finish = event.finish;
    return {};
  }

 protected:
  /// A prompt's log-probabilities are told with its first choice.
  const std::vector<TokenChoice>& prompt_logprobs(std::size_t index) const {
    return choices_[index / n_ * n_].prompt_logprobs;
  }

  const AnswerHead head_;
  const Model model_;
  const std::vector<ListedPrompt> prompts_;
  const std::size_t n_;
  const bool has_logprobs_;
  const bool has_prompt_logprobs_;
  const bool echoes_;
  const bool returns_ids_;
  std::vector<WholeChoice> choices_;
};

class WholeChat final : public WholeWriter {
 public:
  using WholeWriter::WholeWriter;

  std::string finish(const Usage& usage) override {
    JsonWriter out;
    write_head(head_, "chat.completion", out);
    out.key("choices").open_array();
    for (std::size_t i = 0; i < choices_.size(); ++i) write(i, out);
    out.close_array();
    write_usage(usage, out);
    if (has_prompt_logprobs_) write_prompt_logprobs(prompt_logprobs(0), model_, out);
    if (returns_ids_) write_ids("prompt_token_ids", prompts_.front().ids, out);
    out.close_object();
    return out.take();
  }

 private:
  void write(std::size_t index, JsonWriter& out) const {
    const WholeChoice& choice = choices_[index];
    out.open_object().member("index", static_cast<std::int64_t>(index));
    out.key("message").open_object().member("role", "assistant").member("content", choice.content);
    if (!choice.reasoning.empty()) out.member("reasoning_content", choice.reasoning);
    out.key("refusal").null().close_object();
    out.key("logprobs");
    if (has_logprobs_) {
      out.open_object().key("content").open_array();
      for (const TokenChoice& token : choice.logprobs) write_chat_logprob(token, model_, out);
      out.close_array().key("refusal").null().close_object();
    } else {
      out.null();
    }
    write_finish(choice.finish, out);
    if (returns_ids_) write_ids("token_ids", choice.ids, out);
    out.close_object();
  }
};

class WholeCompletion final : public WholeWriter {
 public:
  using WholeWriter::WholeWriter;

  std::string finish(const Usage& usage) override {
    JsonWriter out;
    write_head(head_, "text_completion", out);
    out.key("choices").open_array();
    for (std::size_t i = 0; i < choices_.size(); ++i) write(i, out);
    out.close_array();
    write_usage(usage, out);
    out.close_object();
    return out.take();
  }

 private:
  void write(std::size_t index, JsonWriter& out) const {
    const WholeChoice& choice = choices_[index];
    out.open_object().member("index", static_cast<std::int64_t>(index)).member("text", choice.content);
    out.key("logprobs");
    if (has_logprobs_) {
      TokenTable table(model_, echoes_ ? prompts_[index / n_].first_offset : 0);
      if (echoes_) {
        table.add_first(prompts_[index / n_].ids.front());
        for (const TokenChoice& token : prompt_logprobs(index)) table.add(token);
      }
      for (const TokenChoice& token : choice.logprobs) table.add(token);
      table.write(out);
    } else {
      out.null();
    }
    write_finish(choice.finish, out);
    if (has_prompt_logprobs_) write_prompt_logprobs(prompt_logprobs(index), model_, out);
    if (returns_ids_) {
      write_ids("prompt_token_ids", prompts_[index / n_].ids, out);
      write_ids("token_ids", choice.ids, out);
    }
    out.close_object();
  }
};

// Streams.

class StreamWriter : public AnswerWriter {
 public:
  StreamWriter(AnswerHead head, const ApiRequest& request, const Model& model, std::vector<ListedPrompt> prompts)
      : head_(std::move(head)),
        model_(model),
        prompts_(std::move(prompts)),
        n_(static_cast<std::size_t>(request.n)),
        num_choices_(request.requests.size() * n_),
        has_logprobs_(request.common.sampling.logprobs.has_value()),
        include_usage_(request.include_usage),
        returns_ids_(request.returns_ids) {}

  std::string finish(const Usage& usage) override {
    std::string out;
    if (include_usage_) {
      JsonWriter json;
      write_head(head_, object(), json);
      json.key("choices").open_array().close_array();
      write_usage(usage, json);
      json.close_object();
      out = sse(json.text());
    }
    return out.append(kSseDone);
  }

 protected:
  virtual std::string_view object() const = 0;

  /// `prompt`: its ids, where the answer begins with them.
  template <class WriteChoice>
  std::string chunk(std::size_t index, FinishReason finish, const WriteChoice& write_choice,
                    const std::vector<std::int32_t>* prompt = nullptr) const {
    JsonWriter out;
    write_head(head_, object(), out);
    if (prompt != nullptr) write_ids("prompt_token_ids", *prompt, out);
    out.key("choices").open_array().open_object().member("index", static_cast<std::int64_t>(index));
    write_choice(out);
    write_finish(finish, out);
    out.close_object().close_array();
    if (include_usage_) out.key("usage").null();
    out.close_object();
    return sse(out.text());
  }

  std::size_t index_of(std::size_t prompt, const Event& event) const {
    return prompt * n_ + static_cast<std::size_t>(event.choice);
  }
  bool shows(const Event& event) const {
    return !event.text.empty() || (has_logprobs_ && !event.logprobs.empty()) || (returns_ids_ && !event.ids.empty());
  }

  const AnswerHead head_;
  const Model model_;
  const std::vector<ListedPrompt> prompts_;
  const std::size_t n_;
  const std::size_t num_choices_;
  const bool has_logprobs_;
  const bool include_usage_;
  const bool returns_ids_;
};

class ChatStream final : public StreamWriter {
 public:
  using StreamWriter::StreamWriter;

  std::string begin() override {
    std::string out;
    for (std::size_t i = 0; i < num_choices_; ++i) {
      const auto role = [](JsonWriter& json) {
        json.key("delta").open_object().member("role", "assistant").member("content", "").close_object();
        json.key("logprobs").null();
      };
      out += chunk(i, FinishReason::kNone, role, returns_ids_ ? &prompts_.front().ids : nullptr);
    }
    return out;
  }

  std::string take(std::size_t prompt, const Event& event) override {
    const std::size_t index = index_of(prompt, event);
    std::string out;
    if (shows(event)) {
      out = chunk(index, FinishReason::kNone, [&](JsonWriter& json) {
        const bool reasoning = event.channel == Channel::kReasoning;
        json.key("delta").open_object();
        json.member(reasoning ? "reasoning_content" : "content", event.text).close_object();
        json.key("logprobs");
        if (has_logprobs_) {
          json.open_object().key("content").open_array();
          for (const TokenChoice& token : event.logprobs) write_chat_logprob(token, model_, json);
          json.close_array().key("refusal").null().close_object();
        } else {
          json.null();
        }
        if (returns_ids_) write_ids("token_ids", event.ids, json);
      });
    }
    if (event.finish != FinishReason::kNone) {
      out += chunk(index, event.finish,
                   [](JsonWriter& json) { json.key("delta").open_object().close_object().key("logprobs").null(); });
    }
    return out;
  }

 private:
  std::string_view object() const override { return "chat.completion.chunk"; }
};

class CompletionStream final : public StreamWriter {
 public:
  CompletionStream(AnswerHead head, const ApiRequest& request, const Model& model, std::vector<ListedPrompt> prompts)
      : StreamWriter(std::move(head), request, model, std::move(prompts)),
        tables_(num_choices_, TokenTable(model_)),
        begun_(num_choices_) {}

  std::string take(std::size_t prompt, const Event& event) override {
    const std::size_t index = index_of(prompt, event);
    std::string out;
    if (shows(event)) {
      for (const TokenChoice& token : event.logprobs) tables_[index].add(token);
      out = text_chunk(index, FinishReason::kNone, event.text, has_logprobs_, event.ids);
    }
    if (event.finish != FinishReason::kNone) out += text_chunk(index, event.finish, "", false, {});
    return out;
  }

 private:
  std::string_view object() const override { return "text_completion"; }

  std::string text_chunk(std::size_t index, FinishReason finish, std::string_view text, bool logprobs,
                         const std::vector<std::int32_t>& ids) {
    return chunk(index, finish, [&](JsonWriter& json) {
      json.member("text", text).key("logprobs");
      logprobs ? tables_[index].write(json) : static_cast<void>(json.null());
      if (!returns_ids_) return;
      if (!std::exchange(begun_[index], true)) write_ids("prompt_token_ids", prompts_[index / n_].ids, json);
      write_ids("token_ids", ids, json);
    });
  }

  std::vector<TokenTable> tables_;
  std::vector<char> begun_;  // of each choice: its prompt's ids were told
};

}  // namespace

std::string sse(std::string_view json) {
  std::string out = "data: ";
  out += json;
  out += "\n\n";
  return out;
}

std::unique_ptr<AnswerWriter> make_writer(AnswerHead head, const ApiRequest& request, const Model& model,
                                          std::vector<ListedPrompt> prompts) {
  const bool chat = request.route == Route::kChat;
  if (request.stream && chat) return std::make_unique<ChatStream>(std::move(head), request, model, std::move(prompts));
  if (request.stream) {
    return std::make_unique<CompletionStream>(std::move(head), request, model, std::move(prompts));
  }
  if (chat) return std::make_unique<WholeChat>(std::move(head), request, model, std::move(prompts));
  return std::make_unique<WholeCompletion>(std::move(head), request, model, std::move(prompts));
}

}  // namespace pagoda::server
