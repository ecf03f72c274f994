// The kernels of examples/kernels: their text, what they compute on the interpreter, and where they compile.
#include "KernelFiles.h"

#include <algorithm>
#include <filesystem>

using namespace minic;
using namespace minic::test;

namespace {

constexpr double bf16Rounding = 0x1p-8, f32Rounding = 0x1p-24; // Half a unit in the last place, relative.

double at(const HostTensor &tensor, int64_t row, int64_t column) { return tensor.get(row * tensor.shape()[1] + column); }

/// Inputs are random and never 0, so that an element which was left out is seen.
RunResult runNonZero(const std::string &text, const DimBindings &dims) {
  RunResult result = runText(text, dims);
  EXPECT_TRUE(result.results) << errorText(result.results.errors());
  for (const HostTensor &input : result.inputs)
    for (int64_t i = 0; i < input.numElements(); ++i)
      EXPECT_NE(input.get(i), 0);
  return result;
}

//===-- Text ----------------------------------------------------------------------------------------------------------------===//

TEST(KernelTexts, PrintAndParseBack) {
  for (const char *file : kernelFiles) {
    Loaded first = load(kernelText(file));
    ASSERT_TRUE(first.module) << file;
    std::string printed = printModule(*first.module);
    Loaded second = load(printed);
    ASSERT_TRUE(second.module) << file;
    EXPECT_EQ(printModule(*second.module), printed) << file;
  }
}

TEST(KernelTexts, FilesAreListed) {
  size_t found = 0;
  for (const auto &entry : std::filesystem::directory_iterator(MINIC_EXAMPLES "/kernels"))
    if (entry.path().extension() == ".ir") {
      ++found;
      EXPECT_NE(std::find(std::begin(kernelFiles), std::end(kernelFiles), entry.path().filename().string()), std::end(kernelFiles))
          << entry.path() << " has no test here";
    }
  EXPECT_EQ(found, std::size(kernelFiles));
}

//===-- Numbers -------------------------------------------------------------------------------------------------------------===//

TEST(KernelTexts, RowSoftmax) {
  for (auto [file, rows, columns] : {std::tuple(softmaxFile, 1, 1024), {softmaxFile, 5, 1024}, {clusterFile, 2, 32768}}) {
    RunResult result = runNonZero(kernelText(file), {{"M", rows}});
    ASSERT_TRUE(result.results);
    const HostTensor &x = result.inputs[0], &y = (*result.results)[0];
    ASSERT_EQ(y.shape(), (std::vector<int64_t>{rows, columns}));
    for (int64_t m = 0; m < rows; ++m) {
      double most = -INFINITY, sum = 0;
      for (int64_t n = 0; n < columns; ++n)
        most = std::max(most, at(x, m, n));
      for (int64_t n = 0; n < columns; ++n)
        sum += std::exp(at(x, m, n) - most);
      for (int64_t n = 0; n < columns; ++n) {
        double want = std::exp(at(x, m, n) - most) / sum;
        // Rounded once to bf16; before that a few roundings of f32 and the approximations of exp and 1/x.
        EXPECT_NEAR(at(y, m, n), want, want * (bf16Rounding + 64 * f32Rounding)) << m << ", " << n;
      }
    }
  }
}

void checkGemm(const std::string &text, int64_t M, int64_t K, int64_t N) {
  SCOPED_TRACE(std::to_string(M) + ", " + std::to_string(K) + ", " + std::to_string(N));
  RunResult result = runNonZero(text, {{"M", M}, {"K", K}, {"N", N}});
  ASSERT_TRUE(result.results);
  const HostTensor &x = result.inputs[0], &w = result.inputs[1], &b = result.inputs[2], &y = (*result.results)[0];
  ASSERT_EQ(y.shape(), (std::vector<int64_t>{M, N}));
  int64_t positive = 0;
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = b.get(n), size = std::fabs(sum);
      for (int64_t k = 0; k < K; ++k) {
        double product = at(x, m, k) * at(w, k, n);
        sum += product;
        size += std::fabs(product);
      }
      double want = std::max(sum, 0.0);
      positive += want > 0;
      // K + 1 sums of f32 in any order, then one rounding to bf16.
      ASSERT_NEAR(at(y, m, n), want, want * bf16Rounding + double(K + 1) * f32Rounding * size) << m << ", " << n;
    }
  EXPECT_GT(positive, M * N / 4);
  EXPECT_LT(positive, M * N * 3 / 4);
}

TEST(KernelTexts, GemmOfOneTile) { checkGemm(kernelText(gemmFile), 128, 64, 256); }
TEST(KernelTexts, GemmOfFourTilesAndThreeBlocks) { checkGemm(kernelText(gemmFile), 256, 192, 512); }
TEST(KernelTexts, GemmWithEdges) { checkGemm(kernelText(gemmFile), 136, 72, 320); }
TEST(KernelTexts, GemmSmallerThanATile) { checkGemm(kernelText(gemmFile), 8, 8, 64); }
TEST(KernelTexts, GemmGoesRoundItsRing) { checkGemm(kernelText(gemmFile), 64, 640, 64); }

TEST(KernelTexts, GemmSharesItsTilesAmongCtas) {
  // 3 CTAs instead of 132 have 20 tiles, in bands of 8 rows of tiles and of the 2 that are left.
  std::string text = replaced(kernelText(gemmFile), "program_id grid = [132]", "program_id grid = [3]");
  checkGemm(replaced(replaced(text, "constant 132", "constant 3"), "%b), grid = [132]", "%b), grid = [3]"), 1200, 72, 512);
}

void checkAttention(int64_t M, int64_t N) {
  SCOPED_TRACE(std::to_string(M) + ", " + std::to_string(N));
  constexpr int64_t D = 128;
  RunResult result = runNonZero(kernelText(attentionFile), {{"M", M}, {"B", N / 128}});
  ASSERT_TRUE(result.results);
  const HostTensor &q = result.inputs[0], &k = result.inputs[1], &v = result.inputs[2], &y = (*result.results)[0];
  ASSERT_EQ(y.shape(), (std::vector<int64_t>{M, D}));
  std::vector<double> scores(static_cast<size_t>(N));
  for (int64_t m = 0; m < M; ++m) {
    double most = -INFINITY, sum = 0, size = 0;
    for (int64_t n = 0; n < N; ++n) {
      double score = 0, products = 0;
      for (int64_t d = 0; d < D; ++d) {
        score += at(q, m, d) * at(k, n, d);
        products += std::fabs(at(q, m, d) * at(k, n, d));
      }
      scores[size_t(n)] = score / std::sqrt(double(D));
      most = std::max(most, scores[size_t(n)]);
      size = std::max(size, products / std::sqrt(double(D)));
    }
    for (double &score : scores)
      sum += score = std::exp(score - most);
    // An error of a score is a relative one of its probability: 128 sums of f32, twice, since the maximum has one as well.
    double ofScores = 2 * D * f32Rounding * size;
    for (int64_t d = 0; d < D; ++d) {
      double want = 0, terms = 0;
      for (int64_t n = 0; n < N; ++n) {
        want += scores[size_t(n)] / sum * at(v, n, d);
        terms += scores[size_t(n)] / sum * std::fabs(at(v, n, d));
      }
      // Probabilities are rounded to bf16 before the second product (not those in the sum), the result once more.
      double tolerance = std::fabs(want) * bf16Rounding + terms * (bf16Rounding + 2 * ofScores + double(N) * f32Rounding);
      ASSERT_NEAR(at(y, m, d), want, tolerance) << m << ", " << d;
    }
  }
}

TEST(KernelTexts, AttentionOfOneBlock) { checkAttention(128, 128); }
TEST(KernelTexts, AttentionOfThreeBlocks) { checkAttention(256, 384); }
TEST(KernelTexts, AttentionWithRowsLeftOver) { checkAttention(136, 256); }
TEST(KernelTexts, AttentionGoesRoundItsRings) { checkAttention(8, 128 * 7); }

//===-- Targets -------------------------------------------------------------------------------------------------------------===//

TEST(KernelTexts, CompileForHopper) {
  for (auto [file, kernel] : {std::pair(softmaxFile, "row_softmax_warp_1x1024"),
                              {gemmFile, "gemm_bias_relu_128x256"},
                              {attentionFile, "attention_128x128"}}) {
    std::string ptx = lowerText(kernelText(file), Stage::Ptx);
    EXPECT_NE(ptx.find(".target sm_90a\n"), std::string::npos) << file;
    EXPECT_NE(ptx.find(".visible .entry " + std::string(kernel) + "("), std::string::npos) << file;
    EXPECT_EQ(ptx.find(".local"), std::string::npos) << file << " keeps all in registers";
  }
}

TEST(KernelTexts, RefusedWhereItsInstructionsAreNot) {
  for (const char *target : {"sm_80", "sm_89", "sm_100", "sm_120"})
    for (const char *file : {gemmFile, attentionFile}) {
      Loaded loaded = load(replaced(kernelText(file), "sm_90a", target));
      ASSERT_TRUE(loaded.module);
      auto ptx = emitStage(*loaded.module, Stage::Ptx, {});
      ASSERT_FALSE(ptx) << file;
      std::string said = errorText(ptx.errors());
      for (const Diagnostic &error : ptx.errors())
        EXPECT_EQ(errorCodeName(error.code), errorCodeName(ErrorCode::ResourceLimit)) << said;
      for (const char *op : {"mbarrier_init", "mbarrier_wait", "tma_load", "wgmma"})
        EXPECT_NE(said.find("'" + std::string(op) + "' is an instruction of sm_90a, not of " + target), std::string::npos) << said;
      EXPECT_NE(said.find("fix: compile with --target=sm_90a"), std::string::npos) << said;
    }
}

TEST(KernelTexts, TheSoftmaxNeedsNoHopper) {
  std::string ptx = lowerText(replaced(kernelText(softmaxFile), "sm_90a", "sm_80"), Stage::Ptx);
  EXPECT_NE(ptx.find(".target sm_80\n"), std::string::npos);
}

} // namespace
