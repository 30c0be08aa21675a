#include <algorithm>
#include <map>

#include "io/json_reader.h"
#include "io/model_folder.h"
#include "io/quoted.h"
#include "io/safetensors.h"

namespace pagoda::io {
namespace {

constexpr std::size_t kMaxFiles = 4096;
constexpr std::size_t kMaxTensors = 1u << 20;

bool plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && !name.starts_with('.') && name.ends_with(".safetensors") &&
         name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos &&
         !has_control_characters(name);
}

/// {"metadata": {…}, "weight_map": {tensor: file}}
class IndexReader final : public JsonEvents {
 public:
  explicit IndexReader(std::string source) : source_(std::move(source)) {}

  void begin_object() override {
    ++depth_;
    if (depth_ == 3 && in_map_) wrong_value("an object");
  }
  void key(std::string_view name) override {
    if (depth_ == 1) section_ = name;
    if (depth_ == 1) in_map_ = name == "weight_map";
    if (depth_ == 1 && !in_map_ && name != "metadata") {
      refuse(ErrorCode::kShardIndex, "it has a key {}; allowed are metadata and weight_map", quoted(name));
    }
    if (depth_ == 2 && in_map_) tensor_ = name;
  }
  void end_object() override { --depth_; }
  void begin_array() override {
    ++depth_;
    if (in_map_ || depth_ < 3) wrong_value("a list");
  }
  void end_array() override { --depth_; }
  void null() override {
    if (in_map_ || depth_ < 2) wrong_value("null");
  }
  void scalar(Value value) override {
    const auto* file = value.get_if<std::string>();
    if (depth_ == 2 && in_map_ && file != nullptr) return place(*file);
    if (in_map_ || depth_ < 2) wrong_value(value.kind());
  }

  Result<ShardIndex> finish() {
    if (error_.has_value()) return *std::move(error_);
    if (index_.tensors.empty()) return fail(ErrorCode::kShardIndex, "{}: its weight_map names no tensor", source_);
    // Files were numbered as they came.
    std::vector<std::size_t> place_of(files_.size());
    for (const auto& [name, number] : files_) {
      place_of[number] = index_.files.size();
      index_.files.push_back(name);
    }
    for (auto& [name, file] : index_.tensors) file = place_of[file];
    std::ranges::sort(index_.tensors);
    return std::move(index_);
  }

 private:
  template <class... Args>
  void refuse(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
    if (!error_) error_ = fail(code, "{}: {}", source_, format_packed(text, fmt::make_format_args(args...)));
  }

  void wrong_value(std::string_view what) {
    if (depth_ <= 1 && section_.empty()) return refuse(ErrorCode::kShardIndex, "it is {}, not an object", what);
    refuse(ErrorCode::kShardIndex, "its {} holds {}; weight_map must be an object from tensors to file names", section_,
           what);
  }

  void place(const std::string& file) {
    if (error_.has_value()) return;
    if (!plain_name(file)) {
      return refuse(ErrorCode::kShardName, "tensor {} lies in {}, which is no plain name of a safetensors file",
                    quoted(tensor_), quoted(file));
    }
    const std::size_t number = files_.try_emplace(file, files_.size()).first->second;
    if (files_.size() > kMaxFiles || index_.tensors.size() == kMaxTensors) {
      return refuse(ErrorCode::kShardIndex, "it names more than {} files or {} tensors", kMaxFiles, kMaxTensors);
    }
    index_.tensors.emplace_back(tensor_, number);
  }

  std::string source_;
  int depth_ = 0;
  bool in_map_ = false;
  std::string section_;
  std::string tensor_;
  std::map<std::string, std::size_t> files_;
  ShardIndex index_;
  std::optional<Error> error_;
};

}  // namespace

Result<ShardIndex> parse_shard_index(const std::string& source, std::string_view text) {
  IndexReader reader(source);
  const JsonLimits limits{.depth = 8, .keys_of_an_object = kMaxTensors};
  PAGODA_TRY(read_json(text, source, "the text", limits, reader));
  return reader.finish();
}

Result<TensorCatalog> read_shards(const std::string& source, const ShardIndex& index,
                                  const std::vector<std::unique_ptr<ByteSource>>& files) {
  std::vector<TensorEntry> all;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<TensorEntry> entries = PAGODA_TRY(read_safetensors(*files[i]));
    for (TensorEntry& entry : entries) {
      const auto listed =
          std::ranges::lower_bound(index.tensors, entry.name, {}, [](const auto& t) { return t.first; });
      if (listed == index.tensors.end() || listed->first != entry.name) {
        return fail(ErrorCode::kShardTensorUnlisted, "{}: holds tensor {}, which {} does not name", files[i]->name(),
                    quoted(entry.name), source);
      }
      if (listed->second != i) {
        return fail(ErrorCode::kShardTensorUnlisted, "{}: holds tensor {}, which {} places in {}", files[i]->name(),
                    quoted(entry.name), source, quoted(index.files[listed->second]));
      }
      entry.file_index = static_cast<std::int32_t>(i);
      all.push_back(std::move(entry));
    }
  }
  TensorCatalog catalog(std::move(all));
  for (const auto& [name, file] : index.tensors) {
    if (catalog.find(name) != nullptr) continue;
    return fail(ErrorCode::kShardTensorMissing, "{}: places tensor {} in {}, which has no such tensor", source,
                quoted(name), quoted(index.files[file]));
  }
  return catalog;
}

}  // namespace pagoda::io
