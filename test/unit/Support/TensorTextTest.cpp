#include "minic/Support/HostTensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

using namespace minic;

namespace {

std::string textOf(std::string_view literal, DType t) {
  auto tensor = parseTensorText(literal, t);
  return tensor ? shapeString(t, tensor->shape()) + " " + tensorText(*tensor, 0) : "E " + tensor.errors().front().message;
}

TEST(TensorText, ReadsAndPrints) {
  EXPECT_EQ(textOf("[[1,-2],[0,1]]", DType::F32), "2x2xf32 [[1, -2], [0, 1]]");
  EXPECT_EQ(textOf(" [ [1.5 , -2e3 ] ,\n[0.1,1] ] ", DType::F32), "2x2xf32 [[1.5, -2000], [0.1, 1]]");
  EXPECT_EQ(textOf("3", DType::F32), "f32 3");
  EXPECT_EQ(textOf("-3", DType::I32), "i32 -3");
  EXPECT_EQ(textOf("[nan, inf, -inf, -0.0]", DType::F16), "4xf16 [nan, inf, -inf, -0]");
  EXPECT_EQ(textOf("[true, false, 1, 0]", DType::I1), "4xi1 [true, false, true, false]");
  EXPECT_EQ(textOf("[]", DType::F32), "0xf32 []");
  EXPECT_EQ(textOf("[[], []]", DType::F32), "2x0xf32 [[], []]");
  EXPECT_EQ(textOf("[2147483647, -2147483648]", DType::I32), "2xi32 [2147483647, -2147483648]");
  EXPECT_EQ(textOf("[9223372036854775807, -9223372036854775808]", DType::I64), "2xi64 [9223372036854775807, -9223372036854775808]");
  EXPECT_EQ(textOf("[9007199254740993]", DType::I64), "1xi64 [9007199254740993]"); // Not through f64.
}

TEST(TensorText, F32RoundsOnce) {
  // The middle between 1 and the next f32, plus less than f64 can hold.
  auto tensor = parseTensorText("1.000000059604644775390625000000000000000001", DType::F32);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->get(0), 1 + 0x1p-23);
}

TEST(TensorText, BadLiteralsAreRefused) {
  for (const char *text :
       {"",         " ",         "[",      "]",       "[1",       "[1,",   "[1 2]", "[1,,2]",     "[,1]",     "[[1,2],[3]]",
        "[[1],2]",  "[1,[2]]",   "[1]]",   "[1] x",   "[a]",      "[1a]",  "[--1]", "[+-1]",      "[1e]",     "[e1]",
        "[[],[1]]", "[[[]],[]]", "[nanx]", "[1;2]",   "[1,2}",    "(1,2)", "[0x]",  "[1e999999]", "[...]",    "[1, ..., 3]",
        "[\"1\"]",  "[1\x01]",   "[\xff]", "[1.2.3]", "[nan(7)]", "[.]",   "[-]",   "[1e400]",    "[3.5e38]", "[,]"})
    EXPECT_FALSE(parseTensorText(text, DType::F32)) << text;
  for (const char *text : {"[1.5]", "[nan]", "[inf]", "[2147483648]", "[-2147483649]", "[1e10]", "[99999999999999999999]"})
    EXPECT_FALSE(parseTensorText(text, DType::I32)) << text;
  for (const char *text : {"[2]", "[-1]", "[0.5]", "[True]"})
    EXPECT_FALSE(parseTensorText(text, DType::I1)) << text;
  EXPECT_FALSE(parseTensorText("[65520]", DType::F16));
  EXPECT_FALSE(parseTensorText(std::string_view("[1]\0", 4), DType::F32));
}

TEST(TensorText, ErrorsSayWhere) {
  auto tensor = parseTensorText("[[1, 2], [3, bad]]", DType::F32);
  ASSERT_FALSE(tensor);
  const Diagnostic &error = tensor.errors().front();
  EXPECT_EQ(error.code, ErrorCode::BadInput);
  EXPECT_NE(error.message.find("character 14"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("bad"), std::string::npos) << error.message;
  EXPECT_FALSE(error.fix.empty());
}

TEST(TensorText, DeepNestingIsAnErrorNotACrash) {
  for (size_t depth : {65u, 1000000u}) {
    auto tensor = parseTensorText(std::string(depth, '['), DType::F32);
    ASSERT_FALSE(tensor);
    EXPECT_EQ(tensor.errors().front().code, ErrorCode::TooDeep);
  }
  EXPECT_TRUE(parseTensorText(std::string(64, '[') + "1" + std::string(64, ']'), DType::F32));
}

TEST(TensorText, EveryNarrowFloatReadsBack) {
  for (DType t : {DType::F16, DType::BF16})
    for (unsigned i = 0; i < 0x10000; ++i) {
      HostTensor tensor(t, {});
      tensor.as<uint16_t>()[0] = uint16_t(i);
      std::string text = tensorText(tensor);
      auto back = parseTensorText(text, t);
      ASSERT_TRUE(back) << text;
      if (std::isnan(tensor.get(0)))
        ASSERT_TRUE(std::isnan(back->get(0))) << text;
      else
        ASSERT_EQ(back->as<uint16_t>()[0], i) << text;
    }
}

TEST(TensorText, EveryFloat8ReadsBack) {
  for (DType t : {DType::F8E4M3, DType::F8E5M2})
    for (unsigned i = 0; i < 0x100; ++i) {
      HostTensor tensor(t, {});
      tensor.as<uint8_t>()[0] = uint8_t(i);
      auto back = parseTensorText(tensorText(tensor), t);
      ASSERT_TRUE(back) << i;
      ASSERT_TRUE(back->as<uint8_t>()[0] == i || (std::isnan(tensor.get(0)) && std::isnan(back->get(0)))) << i;
    }
  EXPECT_FALSE(parseTensorText("[inf]", DType::F8E4M3)); // It has none.
  EXPECT_TRUE(parseTensorText("[-inf]", DType::F8E5M2));
}

TEST(TensorText, RandomFloatsReadBack) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    HostTensor single(DType::F32, {}), twice(DType::F64, {});
    single.as<uint32_t>()[0] = uint32_t(random());
    twice.as<uint64_t>()[0] = random();
    for (const HostTensor *tensor : {&single, &twice}) {
      if (std::isnan(tensor->get(0)))
        continue;
      auto back = parseTensorText(tensorText(*tensor), tensor->dtype());
      ASSERT_TRUE(back) << tensorText(*tensor);
      ASSERT_TRUE(std::ranges::equal(back->bytes(), tensor->bytes())) << tensorText(*tensor);
    }
  }
}

TEST(TensorText, LongTensorsAreElided) {
  HostTensor tensor(DType::I32, {100, 50});
  fillIota(tensor);
  std::string text = tensorText(tensor, 1000);
  EXPECT_LT(text.size(), 500u);
  EXPECT_NE(text.find("[0, 1, 2, ..., 47, 48, 49]"), std::string::npos) << text;
  EXPECT_NE(text.find("4999]]"), std::string::npos) << text;
  auto whole = parseTensorText(tensorText(tensor, 0), DType::I32);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(std::ranges::equal(whole->bytes(), tensor.bytes()));
  // No elements, and yet any number of rows.
  EXPECT_LT(tensorText(HostTensor(DType::F32, {1 << 30, 0}), 0).size(), 100u);
}

TEST(FloatText, ShortestAndNeverAnInteger) {
  EXPECT_EQ(floatText(0.1f, DType::F32), "0.1");
  EXPECT_EQ(floatText(0.1, DType::F64), "0.1");
  EXPECT_EQ(floatText(0.1f, DType::F64), "0.10000000149011612");
  EXPECT_EQ(floatText(halfToFloat(floatToHalf(0.1f)), DType::F16), "0.1");
  EXPECT_EQ(floatText(bfloatToFloat(floatToBfloat(0.1f)), DType::BF16), "0.1");
  EXPECT_EQ(floatText(1, DType::F32), "1.0");
  EXPECT_EQ(floatText(-0.0, DType::F32), "-0.0");
  EXPECT_EQ(floatText(1e30, DType::F64), "1e+30");
  EXPECT_EQ(floatText(1e-7, DType::F64), "1e-07");
  EXPECT_EQ(floatText(123456789, DType::F64), "123456789.0");
  EXPECT_EQ(floatText(NAN, DType::F32), "nan");
  EXPECT_EQ(floatText(-INFINITY, DType::F16), "-inf");
  EXPECT_EQ(floatText(448, DType::F8E4M3), "448.0"); // And not 450, which is no other number.
}

} // namespace
