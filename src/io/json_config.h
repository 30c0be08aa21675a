#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/raw_config.h"

namespace pagoda::io {

/// A JSON object as keys and values: what lies in an inner object or in a list of objects has the path as its key
/// ("rope_scaling.factor", "layers.0.name"). Lists of numbers of one kind, of strings or of bools are lists of that
/// type; other lists are Value::List. A key with the value null is as good as not there: RawConfig::is_null alone knows
/// it.
/// `source` names the text in messages. Errors: kJson…, kConfigType if the text is no object.
Result<RawConfig> parse_json_config(std::string source, std::string_view text);

/// The same of a file of at most 16 MiB. Errors: kFileNotFound, kFileUnreadable, kFileChanged besides.
Result<RawConfig> read_json_config(const std::string& path);

}  // namespace pagoda::io
