#include "kv/fault.h"

namespace pagoda::kv {

std::string_view to_string(Fault fault) {
  constexpr std::string_view kNames[] = {
      "block_size_unset", "block_size_differs", "group_differs", "block_out_of_range",   "block_missing",
      "table_empty",      "table_too_long",     "length_zero",   "length_over_capacity", "length_differs",
      "count_zero",       "count_not_one",      "count_differs", "writes_not_one",       "written_differs",
      "page_range",       "position_overflow",  "batch_empty",   "too_many_rows",        "too_many_tokens",
      "vectors_differ",
  };
  static_assert(std::size(kNames) == static_cast<std::size_t>(Fault::kVectorsDiffer) + 1);
  return kNames[static_cast<std::size_t>(fault)];
}

}  // namespace pagoda::kv
