// What needs a model's header only: tokenize, detokenize, render.
#include <cstdio>

#include "apps/commands.h"
#include "apps/json.h"
#include "apps/text_input.h"
#include "base/file.h"
#include "base/result.h"

namespace pagoda::apps {
namespace {

constexpr std::uint64_t kMostTextBytes = 256u << 20;
constexpr std::uint64_t kMostJsonBytes = 64u << 20;

Result<std::string> text_or_input(const std::string& text) {
  return text == "-" ? read_utf8("-", kMostTextBytes) : Result<std::string>(text);
}

void print_line(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace

Status tokenize(const Arguments& arguments) {
  const std::string text = PAGODA_TRY(text_or_input(arguments.text));
  const Model model = PAGODA_TRY(open_model(arguments, false));
  print_line(to_json(PAGODA_TRY(model.tokenize(text, {.special = arguments.special, .bos = arguments.bos}))));
  return Ok{};
}

Status detokenize(const Arguments& arguments) {
  const std::string text = PAGODA_TRY(text_or_input(arguments.text));
  const std::vector<std::int32_t> ids = PAGODA_TRY(ids_from_json(text));
  const Model model = PAGODA_TRY(open_model(arguments, false));
  print_line(PAGODA_TRY(model.detokenize(ids)));
  return Ok{};
}

Status render(const Arguments& arguments) {
  Chat chat;
  chat.messages_json = PAGODA_TRY(read_text(arguments.messages_file, kMostJsonBytes));
  if (!arguments.tools_file.empty()) chat.tools_json = PAGODA_TRY(read_text(arguments.tools_file, kMostJsonBytes));
  chat.add_generation_prompt = arguments.generation_prompt;
  const Model model = PAGODA_TRY(open_model(arguments, false));
  const std::string prompt = PAGODA_TRY(model.render(chat));
  std::fwrite(prompt.data(), 1, prompt.size(), stdout);
  return Ok{};
}

}  // namespace pagoda::apps
