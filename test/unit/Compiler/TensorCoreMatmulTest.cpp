// Products of 16-bit floats on tensor cores.
#include "TensorCoreTest.h"

using namespace minic;
using namespace minic::test;

namespace {

TEST(TensorCoreMatmul, OneTile) { check({.M = 64, .K = 128, .N = 64}); }
TEST(TensorCoreMatmul, BiasAndRelu) {
  check({.M = 130, .K = 200, .N = 192, .bm = 128, .bn = 128, .hasBias = true, .hasRelu = true});
}
TEST(TensorCoreMatmul, ResidualWithRowsLeftOver) {
  check({.M = 130, .K = 72, .N = 192, .bm = 128, .bn = 256, .hasResidual = true});
}
TEST(TensorCoreMatmul, TransposedWeights) {
  check({.M = 130, .K = 136, .N = 72, .bn = 128, .isTransposed = true, .hasBias = true});
}
// Operands that TMA does not reach: they are copied first.
TEST(TensorCoreMatmul, RowsThatDoNotStartAt16Bytes) {
  check({.M = 70, .K = 77, .N = 130, .bn = 128, .hasBias = true, .hasResidual = true});
}
TEST(TensorCoreMatmul, OddColumnsOfTransposedWeights) {
  check({.M = 70, .K = 70, .N = 75, .isTransposed = true, .givesSums = true});
}
TEST(TensorCoreMatmul, RowsThatLieAcross) {
  check({.M = 130, .K = 136, .N = 64, .bm = 128, .isAcross = true, .hasResidual = true});
}
TEST(TensorCoreMatmul, BothAcross) { check({.M = 70, .K = 72, .N = 72, .isTransposed = true, .isAcross = true, .hasBias = true}); }
TEST(TensorCoreMatmul, OneBlockOfK) { check({.M = 128, .K = 64, .N = 128, .bm = 128, .hasBias = true}); }
TEST(TensorCoreMatmul, LessThanABlockOfK) { check({.M = 8, .K = 8, .N = 64}); }
TEST(TensorCoreMatmul, SumsAlone) { check({.M = 130, .K = 72, .N = 128, .bn = 128, .givesRounded = false, .givesSums = true}); }
TEST(TensorCoreMatmul, SumsAndResult) {
  check({.M = 130, .K = 72, .N = 128, .bm = 128, .bn = 128, .hasBias = true, .hasRelu = true, .givesSums = true});
}
TEST(TensorCoreMatmul, OddNumberOfStores) { check({.M = 576, .K = 72, .N = 64, .multiprocessors = 2}); }
TEST(TensorCoreMatmul, NamedRows) {
  check({.M = 200, .K = 72, .N = 128, .hasBias = true, .hasResidual = true, .rowsInText = isNamed});
}
// A launch of no programs: a tensor map cannot have a size of 0.
TEST(TensorCoreMatmul, NoRowsOfANamedSize) { check({.M = 0, .K = 72, .N = 64, .hasBias = true, .rowsInText = isNamed}); }
// TMA brings the rows that there are, and the rest of the block is 0.
TEST(TensorCoreMatmul, FewRows) { check({.M = 5, .K = 200, .N = 192, .hasBias = true}); }
TEST(TensorCoreMatmul, FewRowsForTwoConsumers) { check({.M = 66, .K = 328, .N = 128, .bm = 128, .hasResidual = true}); }
TEST(TensorCoreMatmul, FewRowsAndOneStage) { check({.M = 17, .K = 136, .N = 64, .stages = 1}); }
TEST(TensorCoreMatmul, OneStage) { check({.M = 130, .K = 200, .N = 64, .stages = 1}); }
TEST(TensorCoreMatmul, TwoStagesGoRound) { check({.M = 200, .K = 456, .N = 128, .stages = 2, .multiprocessors = 1}); }
// Bands of 2 rows of tiles, and of the one that is left.
TEST(TensorCoreMatmul, TilesInBands) { check({.M = 300, .K = 72, .N = 192, .raster = 2, .hasBias = true, .multiprocessors = 2}); }

// Products with one x, whose columns stand side by side: one wgmma in each block.
TEST(TensorCoreMatmul, TwoProducts) {
  std::string text = check({.M = 64, .K = 136, .N = 64, .hasBias = true, .products = 2});
  EXPECT_EQ(text.find(" = wgmma "), text.rfind(" = wgmma "));
  EXPECT_EQ(text.find("kernel @"), text.rfind("kernel @"));
}
TEST(TensorCoreMatmul, TwoProductsForTwoConsumers) {
  check({.M = 200, .K = 200, .N = 192, .bm = 128, .bn = 128, .hasBias = true, .hasResidual = true, .hasRelu = true, .products = 2});
}
TEST(TensorCoreMatmul, TwoProductsOfTransposedWeights) {
  check({.M = 130, .K = 136, .N = 200, .bm = 128, .bn = 128, .isTransposed = true, .hasBias = true, .products = 2});
}
TEST(TensorCoreMatmul, TwoProductsOfRowsThatLieAcross) {
  check({.M = 136, .K = 136, .N = 72, .bm = 128, .isAcross = true, .hasResidual = true, .givesSums = true, .products = 2});
}
TEST(TensorCoreMatmul, TwoProductsOfOddSizes) {
  check({.M = 70, .K = 77, .N = 131, .bn = 128, .hasBias = true, .hasResidual = true, .products = 2});
}
TEST(TensorCoreMatmul, TwoProductsOfFewRows) { check({.M = 5, .K = 200, .N = 192, .bn = 128, .hasBias = true, .products = 2}); }
TEST(TensorCoreMatmul, TwoProductsOfOneBlock) { check({.M = 64, .K = 64, .N = 128, .bn = 128, .stages = 1, .products = 2}); }
TEST(TensorCoreMatmul, TwoProductsOfNamedRows) {
  for (int64_t rows : {0, 1, 200})
    check({.M = rows, .K = 72, .N = 128, .hasBias = true, .rowsInText = isNamed, .products = 2});
}
TEST(TensorCoreMatmul, ThreeAndFourProducts) {
  for (int64_t products : {3, 4})
    for (bool isTransposed : {false, true})
      check({.M = 130,
             .K = 136,
             .N = 72,
             .bm = 128,
             .stages = 2,
             .isTransposed = isTransposed,
             .hasBias = true,
             .products = products});
}
// A NaN of one product is in its column, and not in that of the other beside it.
TEST(TensorCoreMatmul, SpecialValuesOfTwoProducts) {
  Product p{.M = 64, .K = 72, .N = 128, .bn = 128, .hasBias = true, .products = 2};
  check(p, [&](std::vector<HostTensor> &inputs) {
    inputs[1].set(71 * p.N + 127, NAN);
    inputs[1].set(5 * p.N + 64, -INFINITY);
    inputs.back().set(70 * p.N + 0, INFINITY);
    inputs.back().set(0 * p.N + 63, NAN);
  });
}

TEST(TensorCoreMatmul, SpecialValuesStayInTheirRowsAndColumns) {
  for (bool isTransposed : {false, true}) {
    Product p{.M = 130, .K = 72, .N = 128, .bm = 128, .bn = 128, .isTransposed = isTransposed, .hasBias = true};
    check(p, [&](std::vector<HostTensor> &inputs) {
      auto setWeight = [&](int64_t k, int64_t n, double value) { inputs[1].set(isTransposed ? n * p.K + k : k * p.N + n, value); };
      inputs[0].set(129 * p.K + 71, NAN); // The last element of all, beside what TMA pads.
      inputs[0].set(63 * p.K + 0, INFINITY);
      setWeight(71, 127, NAN);
      setWeight(5, 64, -INFINITY);
    });
  }
}

//===-- The tensor cores of a warp ------------------------------------------------------------------------------------------===//

TEST(MmaMatmul, OneTile) { check({.M = 64, .K = 128, .N = 64, .warps = "[2, 2]", .blockOfK = 32}); }
TEST(MmaMatmul, BiasAndRelu) {
  check({.M = 130, .K = 200, .N = 192, .bm = 128, .bn = 128, .hasBias = true, .hasRelu = true, .warps = "[2, 4]", .blockOfK = 32});
}
TEST(MmaMatmul, ResidualWithRowsLeftOver) {
  check({.M = 130, .K = 72, .N = 192, .bm = 128, .bn = 256, .stages = 3, .hasResidual = true, .warps = "[2, 4]", .blockOfK = 32});
}
TEST(MmaMatmul, TransposedWeights) {
  check({.M = 130, .K = 136, .N = 72, .bn = 128, .isTransposed = true, .hasBias = true, .warps = "[1, 4]"});
}
// Operands that copies of 16 bytes do not reach: they are copied first.
TEST(MmaMatmul, RowsThatDoNotStartAt16Bytes) {
  check({.M = 70, .K = 77, .N = 131, .bn = 128, .hasBias = true, .hasResidual = true, .warps = "[2, 2]", .blockOfK = 16});
}
TEST(MmaMatmul, OddColumnsOfTransposedWeights) {
  check({.M = 70, .K = 70, .N = 75, .isTransposed = true, .givesSums = true, .warps = "[4, 1]"});
}
TEST(MmaMatmul, RowsThatLieAcross) {
  check({.M = 136, .K = 136, .N = 64, .bm = 128, .isAcross = true, .hasResidual = true, .warps = "[2, 2]"});
}
TEST(MmaMatmul, BothAcross) {
  check({.M = 70, .K = 72, .N = 72, .isTransposed = true, .isAcross = true, .hasBias = true, .warps = "[2, 2]", .blockOfK = 32});
}
TEST(MmaMatmul, ShortSweeps) {
  check({.M = 128, .K = 64, .N = 128, .bm = 128, .hasBias = true, .warps = "[2, 2]"});
  check({.M = 8, .K = 8, .N = 64, .bm = 16, .warps = "[1, 4]"});
}
TEST(MmaMatmul, OneFragmentOfColumnsForAWarp) {
  check({.M = 40, .K = 80, .N = 40, .bm = 32, .bn = 32, .hasBias = true, .warps = "[1, 4]", .blockOfK = 16});
}
TEST(MmaMatmul, SumsAlone) {
  check({.M = 130, .K = 72, .N = 128, .bn = 128, .givesRounded = false, .givesSums = true, .warps = "[2, 2]"});
}
TEST(MmaMatmul, SumsAndResult) {
  check({.M = 130, .K = 72, .N = 128, .bm = 128, .hasBias = true, .hasRelu = true, .givesSums = true, .warps = "[4, 2]"});
}
TEST(MmaMatmul, NamedRows) {
  check({.M = 200, .K = 72, .N = 128, .hasBias = true, .hasResidual = true, .rowsInText = isNamed, .warps = "[2, 2]"});
  check({.M = 0, .K = 72, .N = 64, .hasBias = true, .rowsInText = isNamed, .warps = "[2, 2]"});
}
TEST(MmaMatmul, AnyNumberOfStages) {
  for (int64_t stages : {1, 2, 3, 5})
    check({.M = 70, .K = 264, .N = 64, .stages = stages, .warps = "[2, 2]", .blockOfK = 32});
}
// Bands of 2 rows of tiles, and of the one that is left.
TEST(MmaMatmul, TilesInBands) { check({.M = 300, .K = 72, .N = 192, .raster = 2, .hasBias = true, .warps = "[2, 2]"}); }

TEST(MmaMatmul, SpecialValuesStayInTheirRowsAndColumns) {
  Product p{.M = 130, .K = 72, .N = 128, .bm = 128, .bn = 128, .hasBias = true, .warps = "[2, 2]", .blockOfK = 32};
  check(p, [&](std::vector<HostTensor> &inputs) {
    inputs[0].set(129 * p.K + 71, NAN); // The last element of all, beside what is filled with zeros.
    inputs[0].set(63 * p.K + 0, INFINITY);
    inputs[1].set(71 * p.N + 127, NAN);
    inputs[1].set(5 * p.N + 64, -INFINITY);
  });
}

} // namespace
