#include "minic/Support/TensorMap.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

std::string faultOf(DType dtype, std::vector<DimExpr> shape, std::vector<int64_t> box, int64_t swizzle) {
  return tensorMapFault(dtype, shape, box, swizzle).value_or("");
}

TEST(TensorMap, RowsAreWholeUnits) {
  EXPECT_EQ(faultOf(DType::BF16, {5, 40}, {8, 64}, 128), "");
  EXPECT_EQ(faultOf(DType::BF16, {5, 36}, {8, 64}, 128), "has rows of 72 bytes, but TMA needs a multiple of 16");
  EXPECT_EQ(faultOf(DType::F32, {3, 5, 36}, {1, 8, 32}, 0), "");
}

TEST(TensorMap, WideBoxesMoveAsSlabs) {
  EXPECT_EQ(faultOf(DType::BF16, {5, 200}, {8, 128}, 128), "");
  EXPECT_EQ(faultOf(DType::BF16, {5, 200}, {8, 64}, 128), "");
  EXPECT_EQ(faultOf(DType::BF16, {5, 200}, {8, 128}, 0), "");
  EXPECT_EQ(faultOf(DType::BF16, {5, 200}, {8, 96}, 128), "has a box with rows of 192 bytes, which is no multiple of 128");
}

TEST(TensorMap, BoxesHaveLimits) {
  EXPECT_EQ(faultOf(DType::BF16, {600, 64}, {257, 64}, 128), "has a box with an extent that is not from 1 to 256");
  EXPECT_EQ(faultOf(DType::BF16, {8, 64}, {8, 60}, 128), "has a box with rows of 120 bytes, which is no multiple of 128");
  EXPECT_EQ(faultOf(DType::BF16, {2, 2, 2, 2, 128}, {1, 1, 1, 2, 128}, 128), "");
  EXPECT_EQ(faultOf(DType::BF16, {2, 2, 2, 2, 2, 128}, {1, 1, 1, 1, 2, 128}, 128), "has more than 5 axes");
  EXPECT_EQ(faultOf(DType::BF16, {0, 64}, {8, 64}, 128), "has a size of 0, which no tensor map can have");
}

TEST(TensorMap, NamedSizesAreAskedLater) {
  EXPECT_EQ(faultOf(DType::BF16, {DimExpr::name("M"), DimExpr::name("N")}, {8, 128}, 128), "");
}

TEST(TensorMap, OneRank) { EXPECT_NE(faultOf(DType::F32, {8, 8}, {8}, 0), ""); }

} // namespace
