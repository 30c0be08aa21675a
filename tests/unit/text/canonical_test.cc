#include "text/canonical.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>

#include "unit/text/random_text.h"

namespace pagoda::text {
namespace {

TEST(Canonical, Composes) {
  EXPECT_EQ(compose_canonical("e\u0301"), "\u00E9");
  EXPECT_EQ(compose_canonical("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(compose_canonical("\u212B"), "\u00C5");  // the Angstrom sign
  EXPECT_EQ(compose_canonical("a\u0301\u0316"), "\u00E1\u0316");
  EXPECT_EQ(compose_canonical("\uFB01"), "\uFB01");  // compatibility characters stay
  EXPECT_EQ(compose_canonical("e\u0301\xFF e\u0301"), "\u00E9\xFF \u00E9");
}

TEST(Canonical, EqualsTheLibrarysOwnWay) {
  std::mt19937 random(11);
  for (int i = 0; i < 4000; ++i) {
    std::string text = random_text(random, 19);
    std::erase(text, '\0');
    auto* expected = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    ASSERT_EQ(compose_canonical(text), reinterpret_cast<const char*>(expected)) << text;
    std::free(expected);
  }
}

}  // namespace
}  // namespace pagoda::text
