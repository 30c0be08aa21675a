#pragma once

#include <cstddef>

namespace pagoda::io {

/// Counts what `new` hands out in this test program: the most bytes alive at once since the meter was made, beyond what
/// was alive then.
class AllocationMeter {
 public:
  AllocationMeter();
  std::size_t peak_bytes() const;

 private:
  std::size_t before_;
};

}  // namespace pagoda::io
