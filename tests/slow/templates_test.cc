// 70 public chat templates (tools/fetch_llama_cpp_files.sh brings them) with 25 conversations each, against jinja2.
#include <gtest/gtest.h>
#include <time.h>

#include <map>
#include <string>

#include "text/chat_template.h"
#include "unit/text/conversations.h"
#include "unit/text/template_cases.h"

namespace pagoda::text {
namespace {

std::string fnv1a(const std::string& data) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char c : data) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string rendered(const ChatTemplate& chat, const cases::Conversation& conversation, const TemplateLimits& limits) {
  TemplateInput input;
  input.messages_json = conversation.messages;
  if (conversation.has_tools) input.tools_json = conversation.tools;
  input.arguments_json = conversation.arguments;
  input.add_generation_prompt = conversation.add_generation_prompt;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now_unix_seconds = cases::kNow;
  const auto result = chat.render(input, limits);
  if (!result.ok() && result.error().code == ErrorCode::kTemplateLimit) return "limit\t";
  if (!result.ok()) return "error\t" + cases::words_of(result.error().message);
  return "out\t" + std::to_string(result->text.size()) + " " + fnv1a(result->text);
}

TEST(PublicTemplates, EqualJinja2OnEveryConversation) {
  setenv("TZ", "UTC", 1);
  tzset();
  std::map<std::string, cases::Conversation> conversations;
  for (auto& one : cases::read_conversations()) conversations.emplace(one.name, one);
  ASSERT_GE(conversations.size(), 12U);
  TemplateLimits limits;
  limits.time_ms = 5'000;  // sanitizer builds; the ordinary limit is checked where speed is
  std::map<std::string, ChatTemplate> templates;
  std::istringstream lines(cases::read_all(cases::golden_path("models.tsv")));
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string file, name, expected;
    std::getline(fields, file, '\t');
    std::getline(fields, name, '\t');
    std::getline(fields, expected);
    auto known = templates.find(file);
    if (known == templates.end()) {
      const std::string source = cases::read_all(std::string(PAGODA_SOURCE_DIR) + "/models/templates/" + file);
      ASSERT_FALSE(source.empty()) << file << " is missing: run tools/fetch_llama_cpp_files.sh";
      auto parsed = ChatTemplate::parse(source);
      ASSERT_TRUE(parsed.ok()) << file << ": " << parsed.error().message;
      known = templates.emplace(file, std::move(*parsed)).first;
    }
    EXPECT_EQ(rendered(known->second, conversations.at(name), limits), cases::unescape(expected))
        << file << " with " << name;
    ++compared;
  }
  EXPECT_EQ(templates.size(), 70U);
  EXPECT_GE(compared, 70 * 12);
}

}  // namespace
}  // namespace pagoda::text
