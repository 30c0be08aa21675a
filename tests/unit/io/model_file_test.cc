// What stands at a path that somebody calls a model.
#include "io/model_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "fixtures/gguf_writer.h"

namespace pagoda::io {
namespace {

namespace fs = std::filesystem;

class OpenModel : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, std::string_view bytes) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  /// Opening fails with this code and "<path>: <sentence>".
  static void expect_refused(const std::string& at, ErrorCode code, const std::string& sentence) {
    const auto model = open_model(at);
    ASSERT_FALSE(model.ok()) << at;
    EXPECT_EQ(static_cast<int>(model.error().code), static_cast<int>(code)) << model.error().message;
    EXPECT_EQ(model.error().message, at + ": " + sentence);
    EXPECT_EQ(kind_of(model.error().code), ErrorKind::kModel);
  }

  fs::path folder_ = fs::temp_directory_path() / ("pagoda_open_model_" + std::to_string(::getpid()));
};

TEST_F(OpenModel, Gguf) {
  fixtures::GgufWriter writer;
  writer.set("general.architecture", "x").add_tensor("w", {3}, std::vector<float>{1, 2, 3}).write(path("m.gguf"));
  auto model = open_model(path("m.gguf"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->path(), path("m.gguf"));
  EXPECT_EQ(model->container(), "GGUF version 3");
  std::vector<float> row(3);
  ASSERT_TRUE(model->read_rows(*model->tensors().find("w"), 0, 1, std::as_writable_bytes(std::span(row))).ok());
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3}));
  float second = 0;
  ASSERT_TRUE(model->read_bytes(*model->tensors().find("w"), 4, std::as_writable_bytes(std::span(&second, 1))).ok());
  EXPECT_EQ(second, 2);
  fs::create_symlink(path("m.gguf"), path("link"));
  EXPECT_TRUE(open_model(path("link")).ok());
}

TEST_F(OpenModel, NothingThere) {
  const char* sentence = "there is no such file or directory";
  expect_refused(path("absent.gguf"), ErrorCode::kFileNotFound, sentence);
  fs::create_symlink(path("absent.gguf"), path("dangling"));
  expect_refused(path("dangling"), ErrorCode::kFileNotFound, sentence);
  fs::create_symlink(path("circle"), path("circle"));
  expect_refused(path("circle"), ErrorCode::kFileUnreadable, "cannot be examined: Too many levels of symbolic links");
  expect_refused("", ErrorCode::kFileNotFound, sentence);
  EXPECT_EQ(open_model(file("plain", "x") + "/model.gguf").error().code, ErrorCode::kFileNotFound);
}

TEST_F(OpenModel, OtherFiles) {
  expect_refused(file("empty", ""), ErrorCode::kFileEmpty, "the file is empty");
  expect_refused(file("text", "# Read me\n"), ErrorCode::kNotAModel,
                 "is a text file; a model is a GGUF file or a Hugging Face directory");
  expect_refused(file("config.json", "{\"a\": 1}"), ErrorCode::kNotAModel,
                 "is a text file; a model is a GGUF file or a Hugging Face directory");
  expect_refused(
      file("a.safetensors", std::string("\x08\0\0\0\0\0\0\0{}      ", 16)), ErrorCode::kNotAModel,
      "is a safetensors file, which is read with its directory; a model is a GGUF file or a Hugging Face directory");
  expect_refused(file("a.pt", "PK\x03\x04 and more"), ErrorCode::kNotAModel,
                 "is a zip archive (as of PyTorch); a model is a GGUF file or a Hugging Face directory");
  expect_refused(file("binary", std::string("\x7f"
                                            "ELF\2\1\1\0",
                                            8)),
                 ErrorCode::kGgufMagic, "the header at offset 4: it begins with '\\x7fELF', not with 'GGUF'");
  expect_refused(file("short", "GGU"), ErrorCode::kNotAModel,
                 "is a text file; a model is a GGUF file or a Hugging Face directory");
  expect_refused(file("magic", "GGUF"), ErrorCode::kGgufTruncated,
                 "the header at offset 4: 4 bytes are needed, but only 0 are left in the file");
  expect_refused("/dev/null", ErrorCode::kNotAModel,
                 "is neither a file nor a directory; a model is a GGUF file or a Hugging Face directory");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_refused(path("pipe"), ErrorCode::kNotAModel,
                 "is neither a file nor a directory; a model is a GGUF file or a Hugging Face directory");
}

TEST_F(OpenModel, Directories) {
  const auto refused = [this](const std::string& name, const std::string& what) {
    expect_refused(path(name), ErrorCode::kNotAModel, what + "; a model is a GGUF file or a Hugging Face directory");
  };
  fs::create_directories(path("bare"));
  refused("bare", "is a directory without a model");
  file("hf/config.json", "{}");
  refused("hf", "is a directory with a config.json but no weights");
  file("hf/model-00001-of-00002.safetensors", "x");
  refused("hf",
          "is a directory with 1 safetensors files, but neither model.safetensors nor model.safetensors.index.json");
  file("weights/model.safetensors", "x");
  refused("weights", "is a directory with safetensors but no config.json");
  file("many/a.gguf", "GGUF");
  file("many/b.gguf", "GGUF");
  refused("many", "is a directory with 2 GGUF files: name one");
}

}  // namespace
}  // namespace pagoda::io
