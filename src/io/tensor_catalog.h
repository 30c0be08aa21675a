#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/format.h"

namespace pagoda::io {

struct Planar;

/// Where one tensor of a model lies. The reader has checked that its bytes are inside the file.
struct TensorEntry {
  std::string name;
  const quant::Format* format = nullptr;
  std::vector<std::int64_t> shape;  ///< row-major, up to 8 dimensions: the last one is contiguous. Each ≥ 0
  std::int32_t file_index = 0;      ///< which of the model's files
  std::uint64_t offset = 0;         ///< of the first byte, in that file
  std::uint64_t bytes = 0;
  /// Its element type as a safetensors file calls it, of static storage; empty for others. `format` is null for types
  /// that weights are not kept in by themselves.
  std::string_view dtype = {};
  /// For a weight in several tensors: how it is read. `offset` and `file_index` are then those of its codes, `bytes`
  /// counts its blocks.
  std::shared_ptr<const Planar> planar = {};
  /// All of it is zero: a bias that a model need not have.
  bool zero = false;
  /// The checkpoint lets what the weight is multiplied with be rounded to e4m3. A permission: the weight's values are
  /// the same without it.
  bool fp8_input = false;
  /// All blocks of a row have one scale: that of the tensor, or of the row.
  bool row_scales = false;

  /// Not empty if rows have their columns in another order: column c of what is read is column column_order()[c].
  std::span<const std::int32_t> column_order() const;

  std::int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  /// The product of all dimensions but the last.
  std::int64_t rows() const;
};

/// All tensors of a model, in the order of its files.
class TensorCatalog {
 public:
  TensorCatalog() = default;
  /// `scalars`: numbers that the reader took out of tensors of one element, by these tensors' names.
  explicit TensorCatalog(std::vector<TensorEntry> entries, std::map<std::string, float, std::less<>> scalars = {});

  std::span<const TensorEntry> entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  /// The tensor of that name, or null. Of two with one name (the readers refuse that) either.
  const TensorEntry* find(std::string_view name) const;
  /// Scales of an fp8 cache's keys and values, as a checkpoint names them.
  const std::map<std::string, float, std::less<>>& scalars() const { return scalars_; }
  /// A name that two tensors share, or null.
  const std::string* duplicate() const;

 private:
  std::vector<TensorEntry> entries_;
  std::map<std::string, float, std::less<>> scalars_;
  std::vector<std::uint32_t> by_name_;  // indices of `entries_`, sorted by name
};

}  // namespace pagoda::io
