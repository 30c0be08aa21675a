// Small templates against what jinja2 made of them, as transformers sets it up (tools/make_template_goldens.py).
#include <gtest/gtest.h>
#include <time.h>

#include "text/chat_template.h"
#include "unit/text/template_cases.h"

namespace pagoda::text {
namespace {

class JinjaCases : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

/// The rendering of one case, or the words of its error.
std::string render_case(const std::string& source, bool& is_error) {
  static const std::string context = cases::read_all(cases::golden_path("context.json"));
  // context.json is {"messages": [...]}; the value is what stands between the first '[' and the last ']'.
  const std::string messages = context.substr(context.find('['), context.rfind(']') + 1 - context.find('['));
  TemplateLimits limits;
  limits.time_ms = 20'000;  // sanitizer builds on a busy machine
  is_error = true;
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) return cases::words_of(parsed.error().message);
  TemplateInput input;
  input.messages_json = messages;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now_unix_seconds = cases::kNow;
  const auto rendered = parsed->render(input, limits);
  if (!rendered.ok()) return cases::words_of(rendered.error().message);
  is_error = false;
  return rendered->text;
}

TEST_P(JinjaCases, EqualJinja2) {
  const auto all = cases::read_cases(GetParam());
  ASSERT_GE(all.size(), 15U) << "the case file is missing or empty";
  for (const auto& one : all) {
    bool is_error = false;
    EXPECT_EQ(render_case(one.input, is_error), one.expected) << one.where << ": " << one.input;
    EXPECT_EQ(is_error, one.is_error) << one.where << ": " << one.input;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, JinjaCases,
                         testing::Values("expressions.txt", "filters.txt", "json.txt", "sandbox.txt", "statements.txt",
                                         "strings.txt", "syntax_errors.txt", "whitespace.txt"),
                         [](const auto& file) { return file.param.substr(0, file.param.find('.')); });

}  // namespace
}  // namespace pagoda::text
