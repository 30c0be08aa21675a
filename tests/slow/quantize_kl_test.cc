// SmolLM2 in every format that quantize writes: how far its answers are from those of the unquantised model is what the
// weights' errors make, not the kernels': on the CPU within 5 % of what the reference device gives with the same
// weights.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "pagoda/pagoda.h"

namespace pagoda {
namespace {

const std::string kModel = PAGODA_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr char kText[] =
    "The tower had nine storeys, each a little narrower than the one below. On a clear day you could see the river "
    "from "
    "its windows, and the boats that carried rice to the city.";

const Library& library() {
  static const Library made = Library::create({}).value();
  return made;
}

class Files {
 public:
  Files() {
    char name[] = "/tmp/pagoda_kl_XXXXXX";
    folder_ = mkdtemp(name);
    // Unquantised are the values of this file's weights.
    PAGODA_CHECK(quantize(library(), kModel, plain(), {.format = "f32"}).ok(), "f32");
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  std::string plain() const { return folder_ + "/plain.gguf"; }
  std::string made(const std::string& format) const { return folder_ + "/" + format; }

 private:
  std::string folder_;
};

const Files& files() {
  static const Files made;
  return made;
}

using Rows = std::vector<std::vector<double>>;

/// Log-probabilities at each position of the text.
Rows log_probabilities(const std::string& path, const std::string& device, Precision precision) {
  const auto model = Model::open(library(), path, {.device = device, .precision = precision, .context = 256});
  PAGODA_CHECK(model.ok(), "{}", model.error().message);
  Rows rows;
  ScoreRequest request{.text = TokenIds{model->tokenize(kText).value()}, .on_logits = {}};
  request.on_logits = [&](std::int64_t, std::span<const float> logits) {
    double most = -HUGE_VAL, sum = 0;
    for (const float logit : logits) most = std::max(most, static_cast<double>(logit));
    for (const float logit : logits) sum += std::exp(logit - most);
    std::vector<double>& row = rows.emplace_back(logits.begin(), logits.end());
    for (double& value : row) value -= most + std::log(sum);
    return true;
  };
  PAGODA_CHECK(score(*model, request).ok(), "{}", path);
  return rows;
}

double divergence(const Rows& from, const Rows& to) {
  double sum = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::size_t id = 0; id < from[i].size(); ++id) sum += std::exp(from[i][id]) * (from[i][id] - to[i][id]);
  }
  return sum / static_cast<double>(from.size());
}

class QuantizeKl : public testing::TestWithParam<std::string> {};

TEST_P(QuantizeKl, IsTheWeights) {
  static const Rows plain = log_probabilities(files().plain(), "reference", Precision::kStandard);
  const std::string path = files().made(GetParam());
  const auto done = quantize(library(), files().plain(), path, {.format = GetParam()});
  ASSERT_TRUE(done.ok()) << done.error().message;
  const double exact = divergence(plain, log_probabilities(path, "reference", Precision::kStandard));
  const double cpu = divergence(plain, log_probabilities(path, "cpu", Precision::kHigh));
  std::printf("%-14s KL %.5f on the reference, %.5f on the CPU\n", GetParam().c_str(), exact, cpu);
  EXPECT_NEAR(cpu, exact, 0.05 * exact + 1e-5);
  EXPECT_LT(exact, 2.5) << "no model any more";
  std::filesystem::remove_all(path);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeKl,
                         testing::Values("q8_0", "q6_k", "q5_k", "q4_k_m", "q4_k", "q4_0", "q4_1", "q5_0", "q5_1",
                                         "iq4_nl", "iq4_xs", "q3_k", "affine4_g64", "affine8_g64", "fp8_e4m3",
                                         "fp8_block128", "mxfp4", "mxfp8", "nvfp4", "packed4_g64", "packed8"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace pagoda
