// Answers tests/tools/compare_tokenizers.py: ids and texts of one tokenizer.json.
//
//     tokenizer_peer tokenizer.json [tokenizer_config.json]
//
// All numbers are 32-bit, little-endian. First it writes the ids of marks, counted. A request is a mode (0: marks are
// text, 1: they count), a number of bytes, and a text; the answer is the ids, counted; what they say with marks and
// without, each a number of bytes and the bytes; and the microseconds that encoding took. Ids of -1 alone: an error.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/stream_decoder.h"
#include "text/tokenizer_json.h"

namespace pagoda::text {
namespace {

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool read(void* to, std::size_t bytes) { return bytes == 0 || std::fread(to, bytes, 1, stdin) == 1; }

void write_number(std::int64_t number) {
  const auto narrow = static_cast<std::int32_t>(number);
  std::fwrite(&narrow, sizeof narrow, 1, stdout);
}

void write_ids(const std::vector<std::int32_t>& ids) {
  write_number(std::ssize(ids));
  for (const std::int32_t id : ids) write_number(id);
}

/// What the ids say, and that an answer that streams says the same.
void write_text(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool skip_special) {
  const std::string text = repair_utf8(tokenizer.decode(ids, skip_special));
  StreamDecoder decoder(tokenizer, skip_special);
  std::string streamed;
  for (const std::int32_t id : ids) streamed += decoder.push(id);
  streamed += decoder.finish();
  PAGODA_CHECK(streamed == text, "streamed \"{}\", whole \"{}\"", streamed, text);
  write_number(std::ssize(text));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void answer(const Tokenizer& tokenizer, bool special, std::string_view text) {
  const auto begin = std::chrono::steady_clock::now();
  const auto encoded = tokenizer.encode(text, special ? SpecialTokens::all() : SpecialTokens::none());
  const auto time = std::chrono::steady_clock::now() - begin;
  const std::vector<std::int32_t> ids = encoded.ok() ? encoded.value() : std::vector<std::int32_t>{-1};
  write_ids(ids);
  const std::vector<std::int32_t> said = encoded.ok() ? ids : std::vector<std::int32_t>{};
  write_text(tokenizer, said, false);
  write_text(tokenizer, said, true);
  write_number(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  std::fflush(stdout);
}

int serve(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> marks;
  for (std::int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (tokenizer.is_control(id)) marks.push_back(id);
  }
  write_ids(marks);
  write_ids({tokenizer.prefix_ids().begin(), tokenizer.prefix_ids().end()});
  write_ids({tokenizer.suffix_ids().begin(), tokenizer.suffix_ids().end()});
  std::fflush(stdout);
  std::uint32_t request[2];
  std::string text;
  while (read(request, sizeof request)) {
    text.resize(request[1]);
    if (!read(text.data(), text.size())) break;
    answer(tokenizer, request[0] == 1, text);
  }
  return 0;
}

}  // namespace
}  // namespace pagoda::text

int main(int argc, char** argv) {
  using namespace pagoda;
  const std::string file = argc > 1 ? text::contents(argv[1]) : "";
  const std::string config = argc > 2 ? text::contents(argv[2]) : "";
  const auto begin = std::chrono::steady_clock::now();
  auto source = text::read_tokenizer_json({.tokenizer = file, .config = config, .end_ids = {}});
  if (!source.ok()) {
    std::cerr << source.error().message << "\n";
    return 4;
  }
  const auto tokenizer = text::Tokenizer::create(std::move(source).value());
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.error().message << "\n";
    return 4;
  }
  const auto time = std::chrono::steady_clock::now() - begin;
  std::cerr << "opened in " << std::chrono::duration_cast<std::chrono::milliseconds>(time).count() << " ms\n";
  return text::serve(**tokenizer);
}
