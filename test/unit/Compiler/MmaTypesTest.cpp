// Products of f64, of f32 as tf32 and of 8-bit integers on the tensor cores of a warp.
#include "TensorCoreTest.h"

using namespace minic;
using namespace minic::test;

namespace {

class MmaTypes : public ProductsOfForms {};
class MmaFloats : public MmaTypes {};

std::string nameOf(const ::testing::TestParamInfo<Form> &info) { return info.param.name; }

constexpr Form forms[] = {{"f64", DType::F64}, {"tf32", DType::F32, "tf32"}, {"i8", DType::I8}, {"u8", DType::U8}};
INSTANTIATE_TEST_SUITE_P(All, MmaTypes, ::testing::ValuesIn(forms), nameOf);
INSTANTIATE_TEST_SUITE_P(Some, MmaFloats, ::testing::ValuesIn(std::span(forms).first(2)), nameOf);

TEST_P(MmaTypes, OneTile) { check(of({.M = 64, .K = 256, .N = 64, .givesSums = true, .warps = "[2, 2]"})); }
TEST_P(MmaTypes, BiasAndRelu) {
  check(of({.M = 130, .K = 200, .N = 192, .bm = 128, .hasBias = true, .hasRelu = true, .warps = "[4, 2]"}));
}
TEST_P(MmaTypes, WideTiles) {
  check(of({.M = 130, .K = 72, .N = 192, .bn = 128, .stages = 3, .hasResidual = true, .warps = "[2, 4]", .blockOfK = 32}));
}
TEST_P(MmaTypes, TransposedWeights) {
  check(of({.M = 70, .K = 136, .N = 72, .isTransposed = true, .hasBias = true, .warps = "[1, 4]"}));
}
TEST_P(MmaTypes, RowsThatLieAcross) {
  check(of({.M = 136, .K = 136, .N = 64, .isAcross = true, .hasResidual = true, .warps = "[2, 2]"}));
}
TEST_P(MmaTypes, BothAcross) {
  check(
      of({.M = 70, .K = 144, .N = 80, .isTransposed = true, .isAcross = true, .hasBias = true, .warps = "[2, 2]", .blockOfK = 64}));
}
// Copies of 16 bytes do not reach them: they are copied first.
TEST_P(MmaTypes, OddSizes) {
  check(
      of({.M = 70, .K = 77, .N = 131, .hasBias = true, .hasResidual = true, .givesSums = true, .warps = "[2, 2]", .blockOfK = 32}));
  check(of({.M = 67, .K = 71, .N = 75, .isTransposed = true, .isAcross = true, .givesSums = true, .warps = "[4, 1]"}));
}
// Few terms: the bound is so small that each bit of an operand counts.
TEST_P(MmaTypes, LessThanABlockOfK) {
  for (int64_t k : {1, 3, 8})
    check(of({.M = 40, .K = k, .N = 64, .givesRounded = false, .givesSums = true, .warps = "[1, 2]"}));
}
TEST_P(MmaTypes, OneFragmentOfColumnsForAWarp) {
  check(of({.M = 40, .K = 80, .N = 40, .bm = 32, .bn = 32, .hasBias = true, .warps = "[1, 4]", .blockOfK = 32}));
  check(of({.M = 16, .K = 80, .N = 64, .bm = 16, .hasBias = true, .warps = "[1, 8]", .blockOfK = 32}));
}
TEST_P(MmaTypes, NamedRows) {
  check(of({.M = 100, .K = 72, .N = 128, .hasBias = true, .hasResidual = true, .rowsInText = isNamed, .warps = "[2, 2]"}));
  check(of({.M = 0, .K = 72, .N = 64, .hasBias = true, .rowsInText = isNamed, .warps = "[2, 2]"}));
}
TEST_P(MmaTypes, AnyNumberOfStages) {
  for (int64_t stages : {1, 2, 3, 5})
    check(of({.M = 70, .K = 264, .N = 64, .stages = stages, .warps = "[2, 2]", .blockOfK = 32}));
}

TEST_P(MmaFloats, SpecialValuesStayInTheirRowsAndColumns) {
  Product p = of({.M = 130, .K = 72, .N = 128, .hasBias = true, .warps = "[2, 2]"});
  check(p, [&](std::vector<HostTensor> &inputs) {
    inputs[0].set(129 * p.K + 71, NAN); // The last element of all, beside what is filled with zeros.
    inputs[0].set(63 * p.K + 0, INFINITY);
    inputs[1].set(71 * p.N + 127, NAN);
    inputs[1].set(5 * p.N + 64, -INFINITY);
  });
}

// Of tf32 ties go away from 0, and what is rounded up to the next power of two stays right.
TEST(MmaTf32, RoundsItsOperands) {
  Product p{.M = 16, .K = 8, .N = 64, .bm = 16, .givesRounded = false, .givesSums = true, .dtype = DType::F32, .precision = "tf32"};
  p.warps = "[1, 4]";
  Ran ran = runAfter(p, mmaPasses, [&](std::vector<HostTensor> &inputs) {
    for (int64_t i = 0; i < p.M * p.K; ++i)
      inputs[0].set(i, 0);
    const double values[] = {1 + 0x1p-11, 1 + 0x3p-11, -1 - 0x1p-11, 1 + 0x1p-12, 2 - 0x1p-12, 1 + 0x1p-11 - 0x1p-23, 0x1p-20, 3};
    for (int64_t k = 0; k < p.K; ++k)
      inputs[0].set(k * p.K + k, values[k]); // Each row picks one.
    for (int64_t i = 0; i < p.K * p.N; ++i)
      inputs[1].set(i, 1);
  });
  ASSERT_EQ(ran.results.size(), 1u);
  const double rounded[] = {1 + 0x1p-10, 1 + 0x2p-10, -1 - 0x1p-10, 1, 2, 1, 0x1p-20, 3};
  for (int64_t k = 0; k < p.K; ++k)
    EXPECT_EQ(ran.results[0].get(k * p.N), rounded[k]) << k;
}

// 1024 products of 255 * 255 and a bias: beyond 2^31, where sums wrap.
TEST(MmaIntegers, Wrap) {
  Product p{.M = 64, .K = 1024, .N = 64, .hasBias = true, .dtype = DType::U8, .warps = "[2, 2]"};
  Ran ran = runAfter(p, mmaPasses, [&](std::vector<HostTensor> &inputs) {
    for (unsigned i : {0u, 1u})
      for (int64_t at = 0; at < inputs[i].numElements(); ++at)
        inputs[i].set(at, 255);
    for (int64_t n = 0; n < p.N; ++n)
      inputs[2].set(n, 2147483647);
  });
  ASSERT_EQ(ran.results.size(), 1u);
  for (int64_t i = 0; i < p.M * p.N; ++i)
    ASSERT_EQ(ran.results[0].get(i), double(int32_t(uint32_t(2147483647 + 1024ll * 255 * 255)))) << i;
}

// Each shown a fault that it must catch: a fragment of the wrong rows of k, and a block that is not waited for.
TEST_P(MmaTypes, FaultsAreFound) {
  Product p = of({.M = 64, .K = 256, .N = 64, .givesRounded = false, .givesSums = true, .warps = "[2, 2]"});
  Ran right = runAfter(p, std::span(mmaPasses).first(1), nullptr);
  int64_t depth = p.dtype == DType::F64 || p.dtype == DType::F32 ? 8 : 32;
  std::string second = " = constant " + std::to_string(depth) + " : index";
  auto resultsOf = [&](const std::string &text) {
    Loaded loaded = load(text);
    EXPECT_TRUE(loaded.module) << text;
    auto artifact = makeArtifact(*loaded.module, {}, false);
    EXPECT_TRUE(artifact);
    CpuDevice device(*loaded.module, {});
    return runPlan(*artifact, device, right.inputs, {}, {.poison = true});
  };
  auto same = resultsOf(right.text);
  ASSERT_TRUE(same) << errorText(same.errors());
  EXPECT_EQ((*same)[0].get(0), right.results[0].get(0));
  auto moved = resultsOf(replaced(right.text, second, " = constant 0 : index"));
  ASSERT_TRUE(moved) << errorText(moved.errors());
  EXPECT_NE((*moved)[0].get(0), right.results[0].get(0));
  auto early = resultsOf(replaced(right.text, "cp_async_wait pending = 0", "cp_async_wait pending = 1"));
  ASSERT_FALSE(early);
  EXPECT_TRUE(says(early.errors(), ErrorCode::UndefinedRead));
}

} // namespace
