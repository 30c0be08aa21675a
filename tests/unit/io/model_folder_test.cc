#include "io/model_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "fixtures/safetensors_writer.h"

namespace pagoda::io {
namespace {

namespace fs = std::filesystem;
using fixtures::SafetensorsWriter;

/// Two shards with an index: "a" in the first one, "b" and "c" in the second one.
class Folder : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    write("config.json", R"({"hidden_size": 3})");
    const std::vector<float> values{1, 2, 3};
    SafetensorsWriter().add("a", {3}, values).write(path("m-1.safetensors"));
    SafetensorsWriter().add("b", {3}, values).add("c", {1, 3}, values).write(path("m-2.safetensors"));
    index(R"("a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors")");
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, std::string_view text) const { std::ofstream(path(name)) << text; }
  void index(const std::string& map) const {
    write("model.safetensors.index.json", "{\"metadata\":{\"total_size\":36},\"weight_map\":{" + map + "}}");
  }
  /// Opening fails with this code, and says this.
  void expect_refused(ErrorCode code, const std::string& said) const {
    const auto model = open_model(folder_.string());
    ASSERT_FALSE(model.ok()) << said;
    EXPECT_EQ(static_cast<int>(model.error().code), static_cast<int>(code)) << model.error().message;
    EXPECT_NE(model.error().message.find(said), std::string::npos) << model.error().message;
    EXPECT_TRUE(model.error().message.starts_with(folder_.string())) << model.error().message;
    EXPECT_EQ(kind_of(model.error().code), ErrorKind::kModel);
  }

  fs::path root_ = fs::temp_directory_path() / ("pagoda_model_folder_" + std::to_string(::getpid()));
  fs::path folder_ = root_ / "model";
};

TEST_F(Folder, ShardsAreOneModel) {
  const auto model = open_model(folder_.string() + "/");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->path(), folder_.string());
  EXPECT_EQ(model->folder(), folder_.string());
  EXPECT_EQ(model->container(), "safetensors, 2 files");
  EXPECT_EQ(model->config().integer("hidden_size", 1, 9).value(), 3);
  EXPECT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->file_bytes(), fs::file_size(path("m-1.safetensors")) + fs::file_size(path("m-2.safetensors")));
  std::vector<float> row(3);
  ASSERT_TRUE(model->read_rows(*model->tensors().find("c"), 0, 1, std::as_writable_bytes(std::span(row))).ok());
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3}));
}

TEST_F(Folder, OneFile) {
  fs::remove(path("model.safetensors.index.json"));
  fs::rename(path("m-2.safetensors"), path("model.safetensors"));
  const auto model = open_model(folder_.string());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->container(), "safetensors");
  EXPECT_EQ(model->tensors().size(), 2u);
}

// CASES H1: the index is held against the files both ways, and every missing file is named.
TEST_F(Folder, IndexAndFilesContradictEachOther) {
  fs::rename(path("m-2.safetensors"), path("away"));
  expect_refused(ErrorCode::kShardMissing, "of the 2 files it names these are not there: m-2.safetensors");
  fs::rename(path("m-1.safetensors"), path("away-1"));
  expect_refused(ErrorCode::kShardMissing, "m-1.safetensors, m-2.safetensors");
  fs::rename(path("away"), path("m-2.safetensors"));
  fs::rename(path("away-1"), path("m-1.safetensors"));
  index(R"("a":"m-1.safetensors","b":"m-2.safetensors")");
  expect_refused(ErrorCode::kShardTensorUnlisted, "holds tensor 'c', which");
  index(R"("a":"m-2.safetensors","b":"m-2.safetensors","c":"m-1.safetensors")");
  expect_refused(ErrorCode::kShardTensorUnlisted, "holds tensor 'a', which");
  index(R"("a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors","d":"m-1.safetensors")");
  expect_refused(ErrorCode::kShardTensorMissing, "places tensor 'd' in 'm-1.safetensors', which has no such tensor");
  const std::vector<float> values{1, 2, 3};
  SafetensorsWriter().add("a", {3}, values).add("b", {3}, values).write(path("m-1.safetensors"));
  index(R"("a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors")");
  expect_refused(ErrorCode::kShardTensorUnlisted, "places in 'm-2.safetensors'");  // filled twice
}

TEST_F(Folder, AnIndexThatIsNone) {
  const auto wrong = [this](std::string_view text, ErrorCode code, const std::string& said) {
    write("model.safetensors.index.json", text);
    expect_refused(code, said);
  };
  wrong("", ErrorCode::kFileEmpty, "is empty");
  wrong("{", ErrorCode::kJsonSyntax, "it is no JSON");
  wrong("[]", ErrorCode::kShardIndex, "a list");
  wrong("{}", ErrorCode::kShardIndex, "names no tensor");
  wrong(R"({"weight_map":{}})", ErrorCode::kShardIndex, "names no tensor");
  wrong(R"({"weight_map":3})", ErrorCode::kShardIndex, "an integer");
  wrong(R"({"weight_map":{"a":3}})", ErrorCode::kShardIndex, "an integer");
  wrong(R"({"weight_map":{"a":null}})", ErrorCode::kShardIndex, "null");
  wrong(R"({"weight_map":{"a":["m-1.safetensors"]}})", ErrorCode::kShardIndex, "a list");
  wrong(R"({"weight_map":{"a":{"file":"m-1.safetensors"}}})", ErrorCode::kShardIndex, "an object");
  wrong(R"({"weight_map":{"a":"m-1.safetensors"},"more":1})", ErrorCode::kShardIndex, "'more'");
  wrong(R"({"weight_map":{"a":"m-1.safetensors","a":"m-2.safetensors"}})", ErrorCode::kJsonKeyDuplicate, "'a'");
  for (const char* name : {"../m-1.safetensors", "/etc/passwd", "sub/m.safetensors", "m-1.bin", "", "..",
                           "a\\\\b.safetensors", ".safetensors", "a\\u0000.safetensors"}) {
    wrong(pagoda::format(R"({{"weight_map":{{"a":"{}"}}}})", name), ErrorCode::kShardName, "no plain name");
  }
}

TEST_F(Folder, LinksStayInside) {
  fs::create_directories(root_ / "elsewhere");
  fs::rename(path("m-1.safetensors"), root_ / "elsewhere" / "bytes");
  fs::create_symlink(root_ / "elsewhere" / "bytes", path("m-1.safetensors"));
  expect_refused(ErrorCode::kShardName, "is a link out of the directory");
  fs::remove(path("m-1.safetensors"));
  fs::rename(root_ / "elsewhere" / "bytes", path("bytes"));
  fs::create_symlink("bytes", path("m-1.safetensors"));
  EXPECT_TRUE(open_model(folder_.string()).ok());
}

// The layout of Hugging Face's own cache: snapshots/<revision>/<name> links to blobs/<hash>.
TEST_F(Folder, LinksIntoTheCachesBlobsAreFine) {
  const fs::path snapshot = root_ / "hub" / "snapshots" / "rev";
  fs::create_directories(snapshot);
  fs::create_directories(root_ / "hub" / "blobs");
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    fs::copy_file(entry.path(), root_ / "hub" / "blobs" / ("hash-" + name));
    fs::create_symlink("../../blobs/hash-" + name, snapshot / name);
  }
  const auto model = open_model(snapshot.string());
  EXPECT_TRUE(model.ok()) << model.error().message;
}

TEST_F(Folder, TwoModelsInOneDirectory) {
  fs::copy_file(path("m-1.safetensors"), path("model.safetensors"));
  expect_refused(ErrorCode::kShardIndex, "does not name model.safetensors, which lies beside it");
  index(R"("a":"model.safetensors","b":"m-2.safetensors","c":"m-2.safetensors")");
  EXPECT_TRUE(open_model(folder_.string()).ok());
}

TEST_F(Folder, AConfigurationThatIsNone) {
  write("config.json", "");
  expect_refused(ErrorCode::kFileEmpty, "config.json: the file is empty");
  write("config.json", "[1]");
  expect_refused(ErrorCode::kConfigType, "config.json: is no JSON object");
  write("config.json", R"({"a":1,"a":2})");
  expect_refused(ErrorCode::kJsonKeyDuplicate, "'a' is there twice");
  write("config.json", "{\"a\":\xff}");
  expect_refused(ErrorCode::kJsonEncoding, "UTF-8");
}

}  // namespace
}  // namespace pagoda::io
