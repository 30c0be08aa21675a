#include "apps/text_input.h"

#include "base/file.h"
#include "base/utf8.h"

namespace pagoda::apps {

Result<std::string> read_utf8(const std::string& path, std::uint64_t max_bytes) {
  std::string text = PAGODA_TRY(read_text(path, max_bytes));
  PAGODA_TRY(check_utf8(text, path == "-" ? "standard input" : path));
  return text;
}

}  // namespace pagoda::apps
