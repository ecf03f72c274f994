#include "minic/Support/HostTensor.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

using Shape = std::vector<int64_t>;

Diagnostic errorOf(std::string_view spec, DType dtype, const Shape &shape) {
  auto tensor = makeInput("x", spec, dtype, shape);
  EXPECT_FALSE(tensor) << spec;
  return tensor ? Diagnostic{.code = ErrorCode::BadFlag, .message = "no error"} : tensor.errors().front();
}

TEST(Inputs, Words) {
  auto iota = makeInput("x", "iota", DType::F32, Shape{2, 2});
  ASSERT_TRUE(iota);
  EXPECT_EQ(tensorText(*iota), "[[0, 1], [2, 3]]");
  auto constant = makeInput("x", "const:1.5", DType::BF16, Shape{2});
  ASSERT_TRUE(constant);
  EXPECT_EQ(tensorText(*constant), "[1.5, 1.5]");
  auto literal = makeInput("x", "[[1,-2],[0,1]]", DType::F32, Shape{2, 2});
  ASSERT_TRUE(literal);
  EXPECT_EQ(tensorText(*literal), "[[1, -2], [0, 1]]");
  auto scalar = makeInput("x", "-inf", DType::F32, Shape{});
  ASSERT_TRUE(scalar);
  EXPECT_EQ(tensorText(*scalar), "-inf");
  auto random = makeInput("x", "random:18446744073709551615", DType::F32, Shape{0, 3});
  ASSERT_TRUE(random);
  EXPECT_EQ(random->numElements(), 0);
  HostTensor seeded(DType::F32, {4});
  fillRandom(seeded, 7);
  auto same = makeInput("x", "random:7", DType::F32, Shape{4});
  ASSERT_TRUE(same);
  EXPECT_EQ(tensorText(*same), tensorText(seeded));
}

TEST(Inputs, ShapesThatWordsFix) {
  for (const char *spec : {"iota", "random", "random:7", "const:1"}) {
    auto shape = inputShape("x", spec, DType::F32);
    ASSERT_TRUE(shape);
    EXPECT_EQ(*shape, std::nullopt) << spec;
  }
  auto literal = inputShape("x", "[[1, 2, 3]]", DType::F32);
  ASSERT_TRUE(literal);
  EXPECT_EQ(*literal, (Shape{1, 3}));
  EXPECT_FALSE(inputShape("x", "no-such.npy", DType::F32));
  EXPECT_FALSE(inputShape("x", "[1, ", DType::F32));
}

TEST(Inputs, MessagesSayWhichInputAndWhatWasExpected) {
  EXPECT_EQ(errorOf("[[1,2,3],[4,5,6]]", DType::F32, {2, 2}).message, "input 'x' has shape 2x3xf32, expected 2x2xf32");
  EXPECT_EQ(errorOf("1", DType::F32, {1}).message, "input 'x' has shape f32, expected 1xf32");
  Diagnostic missing = errorOf("no-such.npy", DType::F32, {2});
  EXPECT_EQ(missing.code, ErrorCode::UnreadableFile);
  EXPECT_EQ(missing.message, "input 'x': cannot read 'no-such.npy': no such file");
  EXPECT_NE(missing.fix.find("random:SEED"), std::string::npos);
  Diagnostic typo = errorOf("randon:7", DType::F32, {2});
  ASSERT_EQ(typo.notes.size(), 1u);
  EXPECT_EQ(typo.notes[0].message, "did you mean `random`?");
  EXPECT_EQ(errorOf("random:x", DType::F32, {2}).message, "input 'x': the seed `x` is not an integer from 0 to 2^64 - 1");
  EXPECT_EQ(errorOf("random:", DType::F32, {2}).code, ErrorCode::BadInput);
  EXPECT_EQ(errorOf("random:-1", DType::F32, {2}).code, ErrorCode::BadInput);
  EXPECT_EQ(errorOf("const:1.5", DType::I32, {2}).message, "input 'x': the constant `1.5` is not an integer (i32)");
  EXPECT_EQ(errorOf("const:[1]", DType::F32, {2}).code, ErrorCode::BadInput);
  EXPECT_EQ(errorOf("const:", DType::F32, {2}).code, ErrorCode::BadInput);
  EXPECT_EQ(errorOf("", DType::F32, {2}).code, ErrorCode::UnreadableFile);
}

TEST(Inputs, HugeShapesAreRefusedBeforeMemoryIsTaken) {
  EXPECT_EQ(errorOf("iota", DType::F32, {int64_t(1) << 40, int64_t(1) << 40}).code, ErrorCode::TooLarge);
  EXPECT_EQ(errorOf("random:1", DType::F32, {int64_t(10) << 40}).code, ErrorCode::TooLarge);
  EXPECT_EQ(errorOf("const:1", DType::F32, {-1}).code, ErrorCode::TooLarge);
}

} // namespace
