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

} // namespace
