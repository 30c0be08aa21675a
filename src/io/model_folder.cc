#include "io/model_folder.h"

#include <algorithm>
#include <filesystem>

#include "io/fold_weights.h"
#include "io/json_config.h"
#include "io/quoted.h"
#include "io/safetensors.h"

namespace pagoda::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kWeights = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;

/// The kinds of files that lie in a directory.
struct Listing {
  bool config = false;
  bool weights = false;
  bool index = false;
  std::uint64_t gguf_files = 0;
  std::uint64_t other_safetensors = 0;
  std::uint64_t pickles = 0;
};

Result<Listing> list(const std::string& path) {
  std::error_code error;
  Listing found;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const fs::path name = at->path().filename();
    found.config |= name == kConfig;
    found.weights |= name == kWeights;
    found.index |= name == kIndex;
    found.gguf_files += name.extension() == ".gguf" ? 1 : 0;
    found.other_safetensors += name.extension() == ".safetensors" && name != kWeights ? 1 : 0;
    found.pickles += name.extension() == ".bin" || name.extension() == ".pt" || name.extension() == ".pth" ? 1 : 0;
  }
  if (error) return fail(ErrorCode::kFileUnreadable, "{}: cannot be listed: {}", path, error.message());
  return found;
}

/// Why the directory is no model, if that can be seen.
Status check_listing(const std::string& path, const Listing& found) {
  const auto refuse = [&](const std::string& what) {
    return fail(ErrorCode::kNotAModel, "{}: {}; a model is a GGUF file or a Hugging Face directory", path, what);
  };
  const bool tensors = found.weights || found.index;
  if (found.config && tensors) return Ok{};
  if (found.gguf_files > 0)
    return refuse(pagoda::format("is a directory with {} GGUF files: name one", found.gguf_files));
  if (tensors) return refuse("is a directory with safetensors but no config.json");
  if (found.config && found.other_safetensors > 0) {
    return refuse(pagoda::format("is a directory with {} safetensors files, but neither {} nor {}",
                                 found.other_safetensors, kWeights, kIndex));
  }
  if (found.config && found.pickles > 0) {
    return refuse("is a directory with PyTorch files, which are programs; convert them to safetensors");
  }
  if (found.config) return refuse("is a directory with a config.json but no weights");
  return refuse("is a directory without a model");
}

/// A shard lies in the directory itself; a link may lead to where Hugging Face's own cache keeps the bytes.
Status check_place(const std::string& folder, const std::string& name) {
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  const fs::path real = fs::canonical(fs::path(folder) / name, error);
  if (error) return Ok{};  // opening it will say why
  const fs::path blobs = home.parent_path().parent_path() / "blobs";
  const bool cached = home.parent_path().filename() == "snapshots" && real.parent_path() == blobs;
  if (real.parent_path() == home || cached) return Ok{};
  return fail(ErrorCode::kShardName, "{}/{}: is a link out of the directory, to {}", folder, name,
              io::quoted(real.string()));
}

Result<std::unique_ptr<ByteSource>> open_file(const std::string& folder, const std::string& name) {
  PAGODA_TRY(check_place(folder, name));
  std::unique_ptr<ByteSource> file = std::make_unique<FileSource>(PAGODA_TRY(File::open(folder + "/" + name)));
  return file;
}

Result<ShardIndex> read_index(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kIndex);
  const FileSource file(PAGODA_TRY(File::open(path)));
  if (file.size() == 0) return fail(ErrorCode::kFileEmpty, "{}: the file is empty", path);
  if (file.size() > kMaxIndexBytes) {
    return fail(ErrorCode::kJsonLimit, "{}: has {} bytes; an index has at most {}", path, file.size(), kMaxIndexBytes);
  }
  std::string text(file.size(), '\0');
  PAGODA_TRY(file.read(0, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return parse_shard_index(path, text);
}

/// All that are missing, by name, before anything is read.
Status require_shards(const std::string& folder, const ShardIndex& index) {
  std::string missing;
  for (const std::string& name : index.files) {
    std::error_code error;
    if (fs::exists(fs::path(folder) / name, error)) continue;
    missing += pagoda::format("{}{}", missing.empty() ? "" : ", ", name);
  }
  if (missing.empty()) return Ok{};
  return fail(ErrorCode::kShardMissing, "{}/{}: of the {} files it names these are not there: {}", folder, kIndex,
              index.files.size(), missing);
}

/// What is listed and what is there: which files the tensors lie in, and all tensors.
struct Contents {
  std::vector<std::unique_ptr<ByteSource>> files;
  TensorCatalog tensors;
};

Result<Contents> open_shards(const std::string& path, bool weights_too) {
  const ShardIndex index = PAGODA_TRY(read_index(path));
  if (weights_too && std::ranges::find(index.files, kWeights) == index.files.end()) {
    return fail(ErrorCode::kShardIndex, "{}/{}: does not name {}, which lies beside it; only one may be the model",
                path, kIndex, kWeights);
  }
  PAGODA_TRY(require_shards(path, index));
  Contents contents;
  for (const std::string& name : index.files) contents.files.push_back(PAGODA_TRY(open_file(path, name)));
  contents.tensors = PAGODA_TRY(read_shards(path + "/" + std::string(kIndex), index, contents.files));
  return contents;
}

Result<Contents> open_single(const std::string& path) {
  Contents contents;
  contents.files.push_back(PAGODA_TRY(open_file(path, std::string(kWeights))));
  contents.tensors = TensorCatalog(PAGODA_TRY(read_safetensors(*contents.files.front())));
  return contents;
}

}  // namespace

Result<ModelFile> open_model_folder(const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const Listing found = PAGODA_TRY(list(folder));
  PAGODA_TRY(check_listing(folder, found));
  RawConfig config = PAGODA_TRY(read_json_config(folder + "/" + std::string(kConfig)));
  Contents contents = PAGODA_TRY(found.index ? open_shards(folder, found.weights) : open_single(folder));
  std::string container =
      contents.files.size() == 1 ? "safetensors" : pagoda::format("safetensors, {} files", contents.files.size());
  ModelFile file(std::move(container), std::move(config), std::move(contents.tensors), std::move(contents.files),
                 std::move(folder));
  const Quantization quantization = PAGODA_TRY(read_quantization(file.config(), file.folder()));
  file.set_tensors(PAGODA_TRY(fold_weights(file, quantization)));
  return file;
}

}  // namespace pagoda::io
