// Products of f32, of 8-bit floats and of 8-bit integers on tensor cores.
#include "TensorCoreTest.h"

#include <algorithm>
#include <iterator>

using namespace minic;
using namespace minic::test;

namespace {

constexpr Form forms[] = {{"tf32", DType::F32, "tf32"},  {"bf16x6", DType::F32, "bf16x6"},
                          {"f8e4m3", DType::F8E4M3, ""}, {"f8e5m2", DType::F8E5M2, ""},
                          {"i8", DType::I8, ""},         {"u8", DType::U8, ""}};

class TensorCoreTypes : public ProductsOfForms {};

class TensorCoreFloats : public TensorCoreTypes {};
class TensorCoreBlocks : public TensorCoreTypes {}; // Of which each is summed on its own.
class TensorCoreIntegers : public TensorCoreTypes {};

std::vector<Form> formsWith(bool (*wanted)(const Form &)) {
  std::vector<Form> result;
  std::ranges::copy_if(forms, std::back_inserter(result), wanted);
  return result;
}
bool isFloatForm(const Form &form) { return isFloat(form.dtype); }
bool isIntegerForm(const Form &form) { return isInteger(form.dtype); }
bool isPromoted(const Form &form) { return isStorageOnly(form.dtype) || std::string_view(form.precision) == "bf16x6"; }
std::string nameOf(const ::testing::TestParamInfo<Form> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, TensorCoreTypes, ::testing::ValuesIn(forms), nameOf);
INSTANTIATE_TEST_SUITE_P(Some, TensorCoreFloats, ::testing::ValuesIn(formsWith(isFloatForm)), nameOf);
INSTANTIATE_TEST_SUITE_P(Some, TensorCoreBlocks, ::testing::ValuesIn(formsWith(isPromoted)), nameOf);
INSTANTIATE_TEST_SUITE_P(Some, TensorCoreIntegers, ::testing::ValuesIn(formsWith(isIntegerForm)), nameOf);

TEST_P(TensorCoreTypes, OneTile) { check(of({.M = 64, .K = 128, .N = 64, .givesSums = true})); }
TEST_P(TensorCoreTypes, OddSizes) {
  check(of({.M = 70, .K = 149, .N = 75, .bn = 128, .hasBias = true, .hasResidual = true, .givesSums = true}));
}
TEST_P(TensorCoreTypes, BiasAndReluForTwoConsumers) {
  check(of({.M = 130, .K = 160, .N = 192, .bm = 128, .bn = 128, .stages = 2, .hasBias = true, .hasRelu = true}));
}
TEST_P(TensorCoreTypes, BothAcross) {
  check(of({.M = 70, .K = 144, .N = 80, .isTransposed = true, .isAcross = true, .hasResidual = true}));
}
TEST_P(TensorCoreTypes, RowsOfKStayWhereTheyAre) {
  Product p = of({.M = 66, .K = 144, .N = 72, .isTransposed = true, .givesRounded = false, .givesSums = true});
  EXPECT_EQ(check(p).find("_copy") != std::string::npos, p.isSplit());
}
TEST_P(TensorCoreTypes, OneBlockOfK) {
  Product p = of({.M = 64, .K = 0, .N = 128, .bn = 128, .hasBias = true});
  p.K = p.bk();
  check(p);
}
// Few terms: the bound is so small that each of six products, and each bit of an operand, counts.
TEST_P(TensorCoreTypes, LessThanABlockOfK) {
  for (int64_t k : {1, 3, 8})
    check(of({.M = 64, .K = k, .N = 64, .givesRounded = false, .givesSums = true}));
}
TEST_P(TensorCoreTypes, FewRows) { check(of({.M = 5, .K = 200, .N = 72, .givesRounded = false, .givesSums = true})); }
TEST_P(TensorCoreTypes, FewRowsForTwoConsumers) {
  check(of({.M = 66, .K = 136, .N = 64, .bm = 128, .stages = 2, .hasBias = true}));
}
// A square w has the same type turned, and x is copied as it is beside it.
TEST_P(TensorCoreTypes, SquareWeights) {
  for (int64_t size : {70, 144})
    check(of({.M = 64, .K = size, .N = size, .givesRounded = false, .givesSums = true}));
}
TEST_P(TensorCoreTypes, OneStage) { check(of({.M = 66, .K = 272, .N = 64, .stages = 1, .givesSums = true})); }
TEST_P(TensorCoreTypes, TwoStagesGoRound) {
  check(of({.M = 130, .K = 400, .N = 64, .stages = 2, .hasBias = true, .multiprocessors = 1}));
}
TEST_P(TensorCoreTypes, TwoProducts) {
  check(of({.M = 130, .K = 149, .N = 75, .bm = 128, .stages = 2, .hasBias = true, .givesSums = true, .products = 2}));
  check(of({.M = 5, .K = 272, .N = 80, .stages = 1, .isTransposed = true, .hasResidual = true, .products = 2}));
}
TEST_P(TensorCoreTypes, NamedRows) {
  check(of({.M = 100, .K = 144, .N = 64, .hasBias = true, .hasResidual = true, .rowsInText = isNamed}));
  check(of({.M = 0, .K = 144, .N = 64, .hasBias = true, .rowsInText = isNamed}));
}

// e4m3 has no infinities: they are NaN. So are the parts of one but the first.
TEST_P(TensorCoreFloats, SpecialValuesStayInTheirRowsAndColumns) {
  for (bool isTransposed : {false, true}) {
    Product p = of({.M = 70, .K = 137, .N = 75, .bn = 128, .isTransposed = isTransposed, .hasBias = true, .givesSums = true});
    check(p, [&](std::vector<HostTensor> &inputs) {
      auto setWeight = [&](int64_t k, int64_t n, double value) { inputs[1].set(isTransposed ? n * p.K + k : k * p.N + n, value); };
      inputs[0].set(69 * p.K + 136, NAN); // The last element of all, beside what TMA pads.
      inputs[0].set(63 * p.K + 0, INFINITY);
      setWeight(136, 74, NAN);
      setWeight(5, 64, -INFINITY);
    });
  }
}

// Where sums are added in registers: a block whose sum f32 holds in steps of 1 or 2, then 16 terms of a quarter, which one after
// the other would be lost, and together are 4.
TEST_P(TensorCoreBlocks, AreSummedOnTheirOwn) {
  Product p = of({.M = 64, .K = 0, .N = 64, .givesRounded = false, .givesSums = true});
  int64_t bk = p.bk();
  p.K = 2 * bk;
  Ran ran = runAfter(p, tensorCorePasses, [&](std::vector<HostTensor> &inputs) {
    for (int64_t k = 0; k < p.K; ++k)
      for (int64_t i = 0; i < 64; ++i) {
        double value = k < bk ? double(32768 / bk) : k < bk + 16 ? 0.5 : 0;
        inputs[0].set(i * p.K + k, value);
        inputs[1].set(k * p.N + i, value);
      }
  });
  for (int64_t i = 0; i < 64 * 64; ++i)
    ASSERT_EQ(ran.results[0].get(i), double(0x40000000 / bk + 4)) << i;
}

// 131072 products of 255 * 255 are more than 2^32: too many here, so the sums wrap where the bias is added.
TEST_P(TensorCoreIntegers, Wrap) {
  Product p = of({.M = 64, .K = 16, .N = 64, .hasBias = true});
  Ran ran = runAfter(p, tensorCorePasses, [](std::vector<HostTensor> &inputs) {
    for (int64_t n = 0; n < 64; ++n)
      inputs[2].set(n, 2147483647);
  });
  const HostTensor &x = ran.inputs[0], &w = ran.inputs[1];
  for (int64_t m = 0; m < p.M; ++m)
    for (int64_t n = 0; n < p.N; ++n) {
      int64_t sum = 2147483647;
      for (int64_t k = 0; k < p.K; ++k)
        sum += int64_t(x.get(m * p.K + k) * w.get(k * p.N + n));
      ASSERT_EQ(ran.results[0].get(m * p.N + n), double(int32_t(uint32_t(sum)))) << m << ", " << n;
    }
}

} // namespace
