// Fused multiply-adds whose warps are divided: each element is the chain that numerics.md says, bit for bit.
#include "TensorCoreTest.h"

using namespace minic;
using namespace minic::test;

namespace {

Product ring(Product p, int64_t bm = 64, int64_t bn = 64, int64_t stages = 4) {
  p.dtype = DType::F32;
  p.givesRounded = false;
  p.givesSums = true;
  p.schedule = "#matmul<bm = " + std::to_string(bm) + ", bn = " + std::to_string(bn) +
               ", bk = 16, warps = [2, 2], lanes = [4, 8], vec = 4, stages = " + std::to_string(stages) + ", raster = 2>";
  return p;
}

/// x w by fma in ascending k from +0.0, and +0.0 added: what every schedule gives.
float chain(const Product &p, const Ran &ran, int64_t m, int64_t n) {
  float sum = 0;
  for (int64_t k = 0; k < p.K; ++k)
    sum = std::fma(float(ran.inputs[0].get(p.isAcross ? k * p.M + m : m * p.K + k)),
                   float(ran.inputs[1].get(p.isTransposed ? n * p.K + k : k * p.N + n)), sum);
  return sum + 0.0f;
}

std::string checkChains(const Product &p) {
  std::string text;
  for (size_t count = 1; count <= std::size(tensorCorePasses); ++count) {
    SCOPED_TRACE(std::string("after ") + tensorCorePasses[count - 1]);
    Ran ran = runAfter(p, std::span(tensorCorePasses).first(count), nullptr);
    EXPECT_NE(ran.text.find("role consumer"), std::string::npos) << ran.text;
    EXPECT_EQ(ran.results.size(), 1u);
    for (int64_t i = 0; !ran.results.empty() && i < p.M * p.N; ++i)
      if (float got = float(ran.results[0].get(i)), want = chain(p, ran, i / p.N, i % p.N); std::memcmp(&got, &want, sizeof got)) {
        ADD_FAILURE() << got << ", not " << want << ", at " << i / p.N << ", " << i % p.N;
        break;
      }
    text = ran.text;
  }
  return text;
}

} // namespace

TEST(FmaRing, WholeBlocks) { EXPECT_NE(checkChains(ring({.M = 64, .K = 64, .N = 128})).find("_turned"), std::string::npos); }
TEST(FmaRing, OddSizes) { checkChains(ring({.M = 67, .K = 37, .N = 71})); }
TEST(FmaRing, WhatLiesInRowsOfTheResultStays) {
  EXPECT_EQ(checkChains(ring({.M = 68, .K = 37, .N = 72, .isAcross = true})).find("_copy"), std::string::npos);
}
TEST(FmaRing, BothInRowsOfK) { checkChains(ring({.M = 130, .K = 40, .N = 70, .isTransposed = true})); }
TEST(FmaRing, OneBlockOfK) { checkChains(ring({.M = 70, .K = 16, .N = 64})); }
TEST(FmaRing, LessThanABlockOfK) { checkChains(ring({.M = 64, .K = 3, .N = 66})); }
TEST(FmaRing, OneStage) { checkChains(ring({.M = 66, .K = 50, .N = 66}, 64, 64, 1)); }
TEST(FmaRing, TwoStagesGoRound) { checkChains(ring({.M = 200, .K = 100, .N = 64, .multiprocessors = 1}, 64, 64, 2)); }
TEST(FmaRing, NamedRows) {
  checkChains(ring({.M = 100, .K = 20, .N = 64, .rowsInText = isNamed}));
  checkChains(ring({.M = 0, .K = 20, .N = 64, .rowsInText = isNamed}));
}
TEST(FmaRing, PartsOfColumns) { checkChains(ring({.M = 70, .K = 20, .N = 200}, 64, 256)); }
