#include "io/tensor_catalog.h"

#include <algorithm>
#include <numeric>

#include "io/planar.h"

namespace pagoda::io {

std::span<const std::int32_t> TensorEntry::column_order() const {
  return planar == nullptr ? std::span<const std::int32_t>() : std::span(planar->order);
}

std::int64_t TensorEntry::rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

TensorCatalog::TensorCatalog(std::vector<TensorEntry> entries, std::map<std::string, float, std::less<>> scalars)
    : entries_(std::move(entries)), scalars_(std::move(scalars)) {
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::ranges::sort(by_name_, {}, [this](std::uint32_t index) { return std::string_view(entries_[index].name); });
}

const TensorEntry* TensorCatalog::find(std::string_view name) const {
  const auto name_of = [this](std::uint32_t index) { return std::string_view(entries_[index].name); };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || name_of(*found) != name) return nullptr;
  return &entries_[*found];
}

const std::string* TensorCatalog::duplicate() const {
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const std::string& name = entries_[by_name_[i]].name;
    if (name == entries_[by_name_[i - 1]].name) return &name;
  }
  return nullptr;
}

}  // namespace pagoda::io
