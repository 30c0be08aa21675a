#include "pagoda/score.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <optional>
#include <vector>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/json.h"
#include "apps/npy_writer.h"
#include "apps/text_input.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::uint64_t kMostTextBytes = 64u << 20;
constexpr std::int64_t kLogitsChunk = 16;

Status print(const Model& model, const Score& score) {
  for (std::size_t i = 1; i < score.tokens.size(); ++i) {
    std::string piece;
    if (model.info().has_tokenizer) piece = PAGODA_TRY(model.detokenize(std::span(score.tokens).subspan(i, 1)));
    std::string shown;
    for (const char c : piece) {
      const auto byte = static_cast<unsigned char>(c);
      const bool control = byte < ' ' || byte == 0x7f;  // a text must not speak to the terminal
      shown += c == '\n' ? "\\n" : control ? pagoda::format("\\x{:02x}", byte) : std::string(1, c);
    }
    std::printf("%10.4f  %7d  %s\n", score.logprobs[i - 1], score.tokens[i], shown.c_str());
  }
  if (score.logprobs.empty()) {
    std::printf("%zu tokens: none follows another, and none is scored\n", score.tokens.size());
  } else {
    std::printf("%zu tokens, perplexity %.4f\n", score.tokens.size(), score.perplexity);
  }
  return Ok{};
}

}  // namespace

Status score(const Arguments& arguments) {
  ScoreRequest request;
  if (!arguments.tokens.empty()) {
    request.text = TokenIds{arguments.tokens};
  } else {
    request.text = RawText{.text = PAGODA_TRY(read_utf8(arguments.text_file, kMostTextBytes))};
  }
  Arguments with_chunk = arguments;
  if (!arguments.logits_file.empty() && !arguments.options.prefill_chunk) {
    with_chunk.options.prefill_chunk = kLogitsChunk;  // a chunk's logits are in memory at once
  }
  const Model model = PAGODA_TRY(open_model(with_chunk, true));
  std::optional<NpyWriter> writer;
  std::atomic<bool> stopped{false};
  std::optional<Interrupt> interrupt;
  if (!arguments.logits_file.empty()) {
    Request prompt;
    std::visit([&](const auto& text) { prompt.prompt = text; }, request.text);
    const std::vector<std::int32_t> ids = PAGODA_TRY(model.prompt_ids(prompt));
    interrupt.emplace([&stopped] { stopped.store(true); }, std::vector{SIGTERM, SIGHUP});  // the partial file goes
    writer.emplace(PAGODA_TRY(NpyWriter::create(arguments.logits_file, std::ssize(ids), model.info().vocabulary)));
    request.on_logits = [&](std::int64_t, std::span<const float> logits) { return !stopped && writer->write(logits); };
  }
  const Result<Score> scored = pagoda::score(model, request);
  const bool write_failed = writer && !stopped && !scored.ok() && scored.error().code == ErrorCode::kCancelled;
  if (!scored.ok() && !write_failed) return scored.error();
  if (writer) PAGODA_TRY(writer->finish());
  if (!arguments.json) return print(model, *scored);
  std::printf("%s\n", to_json(*scored).c_str());
  return Ok{};
}

}  // namespace pagoda::apps
