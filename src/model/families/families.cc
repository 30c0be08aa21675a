#include <array>

#include "model/family.h"

namespace pagoda::model {

extern const Family kLlama, kGemma3, kQwen2, kQwen3;

std::span<const Family* const> families() {
  static constexpr std::array<const Family*, 4> kFamilies = {&kLlama, &kGemma3, &kQwen2, &kQwen3};
  return kFamilies;
}

}  // namespace pagoda::model
