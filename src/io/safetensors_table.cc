#include "io/safetensors_table.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "io/json_reader.h"
#include "io/quoted.h"
#include "io/safetensors.h"
#include "quant/format.h"

namespace pagoda::io {
namespace {

struct Dtype {
  std::string_view name;
  std::int64_t bits;
  std::string_view format;  // ours; empty: none
};

constexpr Dtype kDtypes[] = {{"F32", 32, "f32"}, {"BF16", 16, "bf16"},   {"F16", 16, "f16"},     {"F64", 64, {}},
                             {"BOOL", 8, {}},    {"U8", 8, {}},          {"I8", 8, {}},          {"U16", 16, {}},
                             {"I16", 16, {}},    {"U32", 32, {}},        {"I32", 32, {}},        {"U64", 64, {}},
                             {"I64", 64, {}},    {"C64", 64, {}},        {"F8_E4M3", 8, {}},     {"F8_E5M2", 8, {}},
                             {"F8_E8M0", 8, {}}, {"F8_E4M3FNUZ", 8, {}}, {"F8_E5M2FNUZ", 8, {}}, {"F4", 4, {}},
                             {"F6_E2M3", 6, {}}, {"F6_E3M2", 6, {}}};

const Dtype* find_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kDtypes, name, &Dtype::name);
  return found == std::end(kDtypes) ? nullptr : found;
}

/// The fields of one tensor as far as they have been read.
struct Draft {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
};

enum class Field { kNone, kDtype, kShape, kOffsets };

/// Makes entries of the header's events. The first fault is kept; what follows is passed over.
class TableReader final : public JsonEvents {
 public:
  TableReader(std::string_view file, std::uint64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  void begin_object() override {
    ++depth_;
    if (depth_ == 2 && !in_metadata_) draft_ = {.name = name_, .dtype = {}, .shape = {}, .offsets = {}};
    if (depth_ == 3) wrong_value("an object");
  }
  void key(std::string_view name) override {
    if (depth_ == 1) begin_entry(name);
    if (depth_ == 2) begin_field(name);
  }
  void end_object() override {
    if (depth_ == 2 && !in_metadata_) end_tensor();
    --depth_;
  }
  void begin_array() override {
    ++depth_;
    if (depth_ == 2) wrong_value("a list");
    if (depth_ == 3) begin_list();
    if (depth_ > 3) wrong_value("a list");
  }
  void end_array() override { --depth_; }
  void null() override { wrong_value("null"); }
  void scalar(Value value) override;

  Result<SafetensorsTable> finish() {
    if (error_.has_value()) return *std::move(error_);
    return std::move(table_);
  }

 private:
  template <class... Args>
  void refuse(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
    if (error_.has_value()) return;
    error_ = fail(code, "{}: tensor {}: {}", file_, quoted(name_), format_packed(text, fmt::make_format_args(args...)));
  }

  void begin_entry(std::string_view name);
  void begin_field(std::string_view name);
  void begin_list();
  void wrong_value(std::string_view what);
  void push(const Value& value);
  void end_tensor();
  std::optional<std::int64_t> bits_of(const Draft& draft, const Dtype& dtype);
  bool place(const Draft& draft, std::int64_t bits);

  std::string file_;
  std::uint64_t data_bytes_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::uint64_t num_metadata_ = 0;
  std::string name_;
  Field field_ = Field::kNone;
  Draft draft_;
  SafetensorsTable table_;
  std::optional<Error> error_;
};

void TableReader::begin_entry(std::string_view name) {
  in_metadata_ = name == "__metadata__";
  field_ = Field::kNone;
  name_ = name;
  if (in_metadata_) return;
  if (table_.entries.size() == SafetensorsLimits::kMaxTensors) {
    refuse(ErrorCode::kSafetensorsTensorCount, "it is one more than the {} tensors allowed",
           SafetensorsLimits::kMaxTensors);
  }
  if (name.empty() || name.size() > SafetensorsLimits::kMaxTensorNameBytes) {
    refuse(ErrorCode::kSafetensorsTensorName, "its name has {} bytes; allowed are 1 to {}", name.size(),
           SafetensorsLimits::kMaxTensorNameBytes);
  }
  if (has_control_characters(name)) {
    refuse(ErrorCode::kSafetensorsTensorName, "its name has control characters");
  }
}

void TableReader::begin_field(std::string_view name) {
  if (in_metadata_) {
    if (++num_metadata_ > SafetensorsLimits::kMaxMetadata) {
      refuse(ErrorCode::kSafetensorsMetadata, "it has more than the {} entries allowed",
             SafetensorsLimits::kMaxMetadata);
    }
    return;
  }
  field_ = name == "dtype"          ? Field::kDtype
           : name == "shape"        ? Field::kShape
           : name == "data_offsets" ? Field::kOffsets
                                    : Field::kNone;
  if (field_ == Field::kNone) {
    refuse(ErrorCode::kSafetensorsTensorField, "it has a field {}; allowed are dtype, shape and data_offsets",
           quoted(name));
  }
}

void TableReader::begin_list() {
  if (in_metadata_ || field_ == Field::kDtype) return wrong_value("a list");
  if (field_ == Field::kShape) draft_.shape.emplace();
  if (field_ == Field::kOffsets) draft_.offsets.emplace();
}

/// A value that cannot stand where it stands.
void TableReader::wrong_value(std::string_view what) {
  if (error_.has_value()) return;
  if (in_metadata_) {
    refuse(ErrorCode::kSafetensorsMetadata, "it holds {}; it must be an object of strings", what);
  } else if (field_ == Field::kNone) {
    refuse(ErrorCode::kSafetensorsTensorField, "it is {}, not an object with dtype, shape and data_offsets", what);
  } else if (field_ == Field::kDtype) {
    refuse(ErrorCode::kSafetensorsTensorType, "its dtype is {}, not a string", what);
  } else if (field_ == Field::kShape) {
    refuse(ErrorCode::kSafetensorsTensorShape, "its shape holds {}; it must be a list of integers from 0 to {}", what,
           SafetensorsLimits::kMaxDimension);
  } else {
    refuse(ErrorCode::kSafetensorsTensorOffset, "its data_offsets hold {}; they must be two integers", what);
  }
}

void TableReader::scalar(Value value) {
  if (error_.has_value()) return;
  auto* text = std::get_if<std::string>(&value.data);
  if (in_metadata_ && depth_ == 2 && text != nullptr) return;
  if (depth_ == 2 && field_ == Field::kDtype && text != nullptr) {
    draft_.dtype = std::move(*text);
  } else if (depth_ == 3 && !in_metadata_ && (field_ == Field::kShape || field_ == Field::kOffsets)) {
    push(value);
  } else {
    wrong_value(value.kind());
  }
}

void TableReader::push(const Value& value) {
  const auto* number = value.get_if<std::int64_t>();
  const bool shape = field_ == Field::kShape;
  if (number == nullptr || *number < 0 || (shape && *number > SafetensorsLimits::kMaxDimension)) {
    return wrong_value(number != nullptr ? pagoda::format("{}", *number) : value.kind());
  }
  std::vector<std::int64_t>& list = shape ? *draft_.shape : *draft_.offsets;
  if (shape && list.size() == SafetensorsLimits::kMaxRank) {
    return refuse(ErrorCode::kSafetensorsTensorShape, "it has more than the {} dimensions allowed",
                  SafetensorsLimits::kMaxRank);
  }
  if (!shape && list.size() == 2) return wrong_value("a third number");
  list.push_back(*number);
}

/// The size that shape and type make.
std::optional<std::int64_t> TableReader::bits_of(const Draft& draft, const Dtype& dtype) {
  std::int64_t elements = 1;  // with every 0 taken as 1, so that no order of dimensions hides an overflow
  bool empty = false;
  for (const std::int64_t dimension : *draft.shape) {
    empty |= dimension == 0;
    const auto product = checked_mul(elements, std::max<std::int64_t>(dimension, 1));
    if (!product)
      return refuse(ErrorCode::kSafetensorsTensorSize, "the product of its shape passes 63 bits"), std::nullopt;
    elements = *product;
  }
  const auto bits = checked_mul(elements, dtype.bits);
  if (!bits) return refuse(ErrorCode::kSafetensorsTensorSize, "its size in bits passes 63 bits"), std::nullopt;
  if (empty) return 0;
  if (*bits % 8 != 0) {
    refuse(ErrorCode::kSafetensorsTensorSize, "its {} bits of type {} are no whole bytes", *bits, dtype.name);
    return std::nullopt;
  }
  return *bits;
}

bool TableReader::place(const Draft& draft, std::int64_t bits) {
  const auto& offsets = *draft.offsets;
  if (offsets.size() != 2) return wrong_value(pagoda::format("{} numbers", offsets.size())), false;
  const auto begin = static_cast<std::uint64_t>(offsets[0]);
  const auto end = static_cast<std::uint64_t>(offsets[1]);
  if (begin > end) {
    refuse(ErrorCode::kSafetensorsTensorOffset, "its bytes begin at {}, behind their end {}", begin, end);
  } else if (end > data_bytes_) {
    refuse(ErrorCode::kSafetensorsTensorRange, "its bytes end at {}, but {} follow the header", end, data_bytes_);
  } else if (end - begin != static_cast<std::uint64_t>(bits / 8)) {
    refuse(ErrorCode::kSafetensorsTensorSize, "its offsets span {} bytes, and its shape and type {} make {}",
           end - begin, *draft.dtype, bits / 8);
  }
  return !error_.has_value();
}

void TableReader::end_tensor() {
  if (error_.has_value()) return;
  const std::string_view missing = !draft_.dtype     ? "dtype"
                                   : !draft_.shape   ? "shape"
                                   : !draft_.offsets ? "data_offsets"
                                                     : "";
  if (!missing.empty()) return refuse(ErrorCode::kSafetensorsTensorField, "it has no {}", missing);
  const Dtype* dtype = find_dtype(*draft_.dtype);
  if (dtype == nullptr) {
    return refuse(ErrorCode::kSafetensorsTensorType, "its dtype {} is unknown", quoted(*draft_.dtype));
  }
  field_ = Field::kOffsets;  // what the rest is about
  const auto bits = bits_of(draft_, *dtype);
  if (!bits || !place(draft_, *bits)) return;
  const auto& offsets = *draft_.offsets;
  table_.entries.push_back({.name = std::move(draft_.name),
                            .format = dtype->format.empty() ? nullptr : quant::find_format(dtype->format),
                            .shape = *std::move(draft_.shape),
                            .file_index = 0,
                            .offset = static_cast<std::uint64_t>(offsets[0]),
                            .bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]),
                            .dtype = dtype->name,
                            .planar = {}});
}

}  // namespace

Result<SafetensorsTable> read_safetensors_table(std::string_view header, std::string_view file,
                                                std::uint64_t data_bytes) {
  TableReader reader(file, data_bytes);
  const JsonLimits limits{.depth = 8, .keys_of_an_object = SafetensorsLimits::kMaxTensors + 2};
  PAGODA_TRY(read_json(header, file, "the header", limits, reader));
  return reader.finish();
}

}  // namespace pagoda::io
