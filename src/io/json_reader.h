// JSON as the files of a checkpoint have it (RFC 8259), read strictly: valid UTF-8, no duplicate keys, nothing but one
// value, and never more memory than a small multiple of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/raw_config.h"

namespace pagoda::io {

/// What a text says, in its order. A handler that has found a fault of its own ignores the rest: the text may still
/// turn out to be no JSON, which is then the better answer.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual void begin_object() = 0;
  virtual void key(std::string_view name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void null() = 0;
  /// A bool, an integer, a real number or a string.
  virtual void scalar(Value value) = 0;
};

struct JsonLimits {
  int depth = 8;  ///< objects and arrays inside one another
  std::uint64_t keys_of_an_object = 1u << 17;
};

/// Reads `text`; `source` and `part` ("the header") name it in messages. Errors: kJsonSyntax, kJsonEncoding,
/// kJsonDepth, kJsonKeyDuplicate, kJsonLimit, each with the offset.
Status read_json(std::string_view text, std::string_view source, std::string_view part, const JsonLimits& limits,
                 JsonEvents& events);

}  // namespace pagoda::io
