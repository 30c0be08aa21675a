#include "text/fragment_encoder.h"

#include <algorithm>

#include "base/result.h"

namespace pagoda::text {

Status encode_bytes(const Vocabulary& vocabulary, std::string_view bytes, std::vector<std::int32_t>& out) {
  const auto id_of = [&](char c) { return vocabulary.byte_ids[static_cast<unsigned char>(c)]; };
  if (std::ranges::all_of(bytes, [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : bytes) out.push_back(id_of(c));
    return Ok{};
  }
  const auto unknown = vocabulary.unknown_for_text();
  if (!unknown.has_value()) {
    return fail(ErrorCode::kInvalidArgument,
                "the vocabulary has no token for the byte 0x{:02X} of the text, and none that stands for the unknown",
                static_cast<unsigned char>(*std::ranges::find_if(bytes, [&](char c) { return id_of(c) < 0; })));
  }
  out.push_back(*unknown);
  return Ok{};
}

}  // namespace pagoda::text
