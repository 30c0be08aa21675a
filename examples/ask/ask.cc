// Asks a model two things in one conversation and prints the answers as they come.
//
//   cmake -S examples/ask -B build/ask -DCMAKE_PREFIX_PATH=<where pagoda is installed>
//   cmake --build build/ask && build/ask/ask models/SmolLM2-135M-Instruct.Q4_1.gguf
#include <pagoda/pagoda.h>

#include <cstdio>

namespace {

int report(const pagoda::Error& error) {
  std::fprintf(stderr, "ask: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ask MODEL\n");
    return 2;
  }
  const auto library = pagoda::Library::create();
  if (!library.ok()) return report(library.error());
  const auto model = pagoda::Model::open(*library, argv[1], {.context = 1024});
  if (!model.ok()) return report(model.error());

  pagoda::Session session(*model);
  pagoda::SamplingParams sampling;
  sampling.temperature = 0.f;
  sampling.max_tokens = 32;
  for (const char* question : {"Name one colour of the rainbow.", "And another one?"}) {
    auto answer = session.send(question, sampling);
    if (!answer.ok()) return report(answer.error());
    std::printf("%s\n  ", question);
    while (auto event = answer->wait()) {
      std::printf("%s", event->text.c_str());
      std::fflush(stdout);
      if (event->finish == pagoda::FinishReason::kNone) continue;
      std::printf("\n  [%lld prompt tokens, %lld of them cached, %lld tokens]\n",
                  static_cast<long long>(event->usage.prompt_tokens),
                  static_cast<long long>(event->usage.cached_tokens),
                  static_cast<long long>(event->usage.completion_tokens));
    }
  }
  return 0;
}
