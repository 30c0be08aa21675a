// One quantised checkpoint, whose weights are put together tensor by tensor. The kinds of checkpoints are members in a
// file each: fold_integers.cc, fold_floats.cc, fold_bitsandbytes.cc, fold_mlx.cc.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/model_file.h"
#include "io/planar.h"
#include "io/quantization.h"
#include "io/quoted.h"

namespace pagoda::io {

std::string shape_text(const std::vector<std::int64_t>& shape);

class WeightFolder {
 public:
  WeightFolder(const ModelFile& file, const Quantization& quantization) : file_(file), quantization_(quantization) {}

  Result<TensorCatalog> run();

 private:
  static constexpr std::uint64_t kMostReadBytes = std::uint64_t{64} << 20;  // of a tensor that is read to decide
  using Shape = std::vector<std::int64_t>;

  Status visit(const TensorEntry& entry);
  Status visit_scale(const TensorEntry& entry);

  // One weight each: `base` is its module's name, `codes` the tensor by which it is known.
  Status gptq(const std::string& base, const TensorEntry& codes);
  Status awq(const std::string& base, const TensorEntry& codes);
  Status packed(const std::string& base, const TensorEntry& codes);
  Status int8(const std::string& base, const TensorEntry& codes);
  Status fp8(const std::string& base, const TensorEntry& codes);
  Status fp4(const std::string& base, const TensorEntry& codes, std::string_view tensor_scale);
  Status bitsandbytes(const std::string& base, const TensorEntry& codes);
  Status mxfp4_blocks(const std::string& base, const TensorEntry& codes);
  Status mlx(const std::string& base, const TensorEntry& codes);
  Status note_zero_bias(const std::string& base);

  /// A tensor that belongs to the weight; null if it is not there.
  const TensorEntry* part(const std::string& name) {
    const TensorEntry* found = file_.tensors().find(name);
    if (found != nullptr) used_.insert(found->name);
    return found;
  }
  /// The same, and an error if it is not there.
  Result<const TensorEntry*> need(const std::string& name, const TensorEntry& codes);
  Status expect(const TensorEntry& entry, std::initializer_list<std::string_view> dtypes, const Shape& shape) const;
  Error unserved(const std::string& base, std::string_view what) const {
    return fail(ErrorCode::kFormatUnsupported, "{}: the weight {} {}", file_.path(), quoted(base), what);
  }
  Status expect_matrix(const TensorEntry& entry, std::string_view dtype) const;

  template <class T>
  Result<std::vector<T>> read(const TensorEntry& entry) const {
    if (entry.bytes > kMostReadBytes || entry.bytes % sizeof(T) != 0) {
      return fail(ErrorCode::kTensorShape, "{}: tensor {} has {} bytes", file_.path(), quoted(entry.name), entry.bytes);
    }
    std::vector<T> values(static_cast<std::size_t>(entry.bytes / sizeof(T)));
    PAGODA_TRY(file_.read_bytes(entry, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  /// The one number of a tensor: positive and finite.
  Result<float> read_scale(const TensorEntry& entry) const;

  /// The weight `name` instead of its codes, with the dimensions before its columns in `outer`, if they are not its
  /// rows.
  Status put(const std::string& name, const TensorEntry& codes, Planar planar, Shape outer = {});

  /// What no result of ours depends on: activations are exact.
  void drop(const std::string& module);

  Result<const quant::Format*> integers(const std::string& base, int bits, std::int64_t group) const;
  Result<const quant::Format*> floats(const std::string& base, std::string_view name, std::int64_t group) const;
  Result<std::vector<std::int32_t>> column_order(const TensorEntry* g_idx, std::int64_t cols, std::int64_t group) const;
  Result<Grid> grid(const TensorEntry& entry, std::int64_t rows, std::int64_t cols, const QuantScheme* scheme);

  const ModelFile& file_;
  const Quantization& quantization_;
  std::set<std::string, std::less<>> used_;
  std::set<std::string, std::less<>> zeros_;
  std::map<std::string, float, std::less<>> scalars_;
  std::map<std::string, TensorEntry, std::less<>> folded_;  // by the name of their codes
};

}  // namespace pagoda::io
