// The f64 meaning of graphs, against values from arithmetic.
#include "InterpTest.h"

#include <cmath>
#include <limits>

using namespace minic;
using namespace minic::test;

namespace {

const double inf = std::numeric_limits<double>::infinity();

std::vector<HostTensor> evaluate(const std::string &text, const std::vector<HostTensor> &inputs, const DimBindings &dims = {}) {
  Parsed module(text);
  if (!module)
    return {};
  auto results = evaluateGraph(*(*module).functions()[0], inputs, dims);
  EXPECT_TRUE(results) << (results ? "" : renderDiagnostics(results.errors(), nullptr));
  return results ? std::move(*results) : std::vector<HostTensor>();
}

ErrorCode errorOf(const std::string &text, const std::vector<HostTensor> &inputs, const DimBindings &dims = {}) {
  Parsed module(text);
  auto results = evaluateGraph(*(*module).functions()[0], inputs, dims);
  EXPECT_FALSE(results);
  return results ? ErrorCode{} : results.errors()[0].code;
}

const std::string linearRelu = R"(
  graph @linear_relu(%x: tensor<NxKxf32>, %w: tensor<KxMxf32>, %b: tensor<Mxf32>) -> (y: tensor<NxMxf32>) {
    %a    = matmul %x, %w             : tensor<NxMxf32>
    %bias = broadcast %b, dims = [1]  : tensor<NxMxf32>
    %z    = add %a, %bias             : tensor<NxMxf32>
    %zero = constant 0.0              : tensor<NxMxf32>
    %y    = max %z, %zero             : tensor<NxMxf32>
    return %y
  }
)";

TEST(Oracle, LinearRelu) {
  auto y =
      evaluate(linearRelu, {tensor({2, 3}, {1, -2, 3, 0, 1, -1}), tensor({3, 2}, {1, 2, 0, -1, -1, 1}), tensor({2}, {0.5, -1})},
               {{"N", 2}, {"K", 3}, {"M", 2}});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(numbers(y[0]), (std::vector<double>{0, 6, 1.5, 0}));
  auto empty = evaluate(linearRelu, {HostTensor(DType::F32, {2, 0}), HostTensor(DType::F32, {0, 2}), tensor({2}, {0.5, -1})},
                        {{"N", 2}, {"K", 0}, {"M", 2}});
  ASSERT_EQ(empty.size(), 1u);
  EXPECT_EQ(numbers(empty[0]), (std::vector<double>{0.5, 0, 0.5, 0})) << "K = 0 gives 0";
}

TEST(Oracle, Softmax) {
  const std::string text = R"(
    graph @softmax(%x: tensor<MxNxf32>) -> tensor<MxNxf32> {
      %m  = reduce max %x, axes = [1]   : tensor<Mxf32>
      %mb = broadcast %m, dims = [0]    : tensor<MxNxf32>
      %z  = sub %x, %mb                 : tensor<MxNxf32>
      %e  = exp %z                      : tensor<MxNxf32>
      %s  = reduce sum %e, axes = [1]   : tensor<Mxf32>
      %sb = broadcast %s, dims = [0]    : tensor<MxNxf32>
      %y  = div %e, %sb                 : tensor<MxNxf32>
      return %y
    }
  )";
  HostTensor x(DType::F32, {3, 781});
  for (int64_t i = 0; i < x.numElements(); ++i)
    x.set(i, -1);
  auto y = evaluate(text, {x}, {{"M", 3}, {"N", 781}});
  ASSERT_EQ(y.size(), 1u);
  for (double v : numbers(y[0]))
    EXPECT_EQ(v, double(float(1.0 / 781)));
  // e^0, e^1, e^2 over their sum 1 + 2.718281828 + 7.389056099.
  auto three = evaluate(text, {tensor({1, 3}, {0, 1, 2})}, {{"M", 1}, {"N", 3}});
  ASSERT_EQ(three.size(), 1u);
  EXPECT_NEAR(three[0].get(0), 0.09003057317, 3e-8);
  EXPECT_NEAR(three[0].get(1), 0.24472847105, 3e-8);
  EXPECT_NEAR(three[0].get(2), 0.66524095577, 3e-8);
}

TEST(Oracle, OnlyReturnAndConvertRound) {
  // 2049 is no f16; without rounding in between, taking 2048 away leaves 1.
  auto y = evaluate(R"(
    graph @g(%x: tensor<1xf16>, %one: tensor<1xf16>) -> (y: tensor<1xf16>, z: tensor<1xf16>) {
      %a = add %x, %one : tensor<1xf16>
      %y = sub %a, %x : tensor<1xf16>
      %wide = convert %a : tensor<1xf32>
      %narrow = convert %wide : tensor<1xf16>
      %z = sub %narrow, %x : tensor<1xf16>
      return %y, %z
    }
  )",
                    {tensor({1}, {2048}, DType::F16), tensor({1}, {1}, DType::F16)});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].get(0), 1);
  EXPECT_EQ(y[1].get(0), 0);
}

TEST(Oracle, IntegersWrapAndConversionsSaturate) {
  auto y = evaluate(R"(
    graph @g(%x: tensor<2xi32>, %f: tensor<5xf32>) -> (y: tensor<2xi32>, z: tensor<5xi32>, b: tensor<5xi1>, s: tensor<i32>) {
      %one = constant 1 : tensor<2xi32>
      %y = add %x, %one : tensor<2xi32>
      %z = convert %f : tensor<5xi32>
      %b = convert %f : tensor<5xi1>
      %s = reduce sum %x, axes = [0] : tensor<i32>
      return %y, %z, %b, %s
    }
  )",
                    {tensor({2}, {2147483647, -5}, DType::I32), tensor({5}, {-2.9, 3e9, -3e9, std::nan(""), 0})});
  ASSERT_EQ(y.size(), 4u);
  EXPECT_EQ(numbers(y[0]), (std::vector<double>{-2147483648.0, -4}));
  EXPECT_EQ(numbers(y[1]), (std::vector<double>{-2, 2147483647, -2147483648.0, 0, 0}));
  EXPECT_EQ(numbers(y[2]), (std::vector<double>{1, 1, 1, 1, 0}));
  EXPECT_EQ(y[3].get(0), 2147483642);
}

TEST(Oracle, NanAndSignedZero) {
  double nan = std::nan("");
  auto y = evaluate(R"(
    graph @g(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (x: tensor<4xf32>, n: tensor<4xf32>, r: tensor<4xf32>, c: tensor<4xi1>) {
      %x = max %a, %b : tensor<4xf32>
      %n = min %a, %b : tensor<4xf32>
      %r = relu %a : tensor<4xf32>
      %c = compare ne %a, %b : tensor<4xi1>
      return %x, %n, %r, %c
    }
  )",
                    {tensor({4}, {nan, 1, -0.0, 0.0}), tensor({4}, {1, nan, 0.0, -0.0})});
  ASSERT_EQ(y.size(), 4u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::isnan(y[size_t(i)].get(0)));
    EXPECT_TRUE(std::isnan(y[size_t(i)].get(1)));
    for (int64_t j : {2, 3})
      EXPECT_EQ(std::signbit(y[size_t(i)].get(j)), i == 1);
  }
  EXPECT_TRUE(std::isnan(y[2].get(0)));
  EXPECT_FALSE(std::signbit(y[2].get(2)));
  EXPECT_EQ(numbers(y[3]), (std::vector<double>{1, 1, 0, 0}));
}

TEST(Oracle, ReductionsOverAnything) {
  const std::string text = R"(
    graph @g(%x: tensor<2xNx3xf32>) -> (s: tensor<2xf32>, m: tensor<Nxf32>, k: tensor<2x3xf32>) {
      %s = reduce sum %x, axes = [1, 2] : tensor<2xf32>
      %m = reduce max %x, axes = [0, 2] : tensor<Nxf32>
      %k = reduce min %x, axes = [1] : tensor<2x3xf32>
      return %s, %m, %k
    }
  )";
  HostTensor x(DType::F32, {2, 5, 3});
  fillIota(x);
  auto y = evaluate(text, {x}, {{"N", 5}});
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(numbers(y[0]), (std::vector<double>{105, 330}));
  EXPECT_EQ(numbers(y[1]), (std::vector<double>{17, 20, 23, 26, 29}));
  EXPECT_EQ(numbers(y[2]), (std::vector<double>{0, 1, 2, 15, 16, 17}));
  auto none = evaluate(text, {HostTensor(DType::F32, {2, 0, 3})}, {{"N", 0}});
  ASSERT_EQ(none.size(), 3u);
  EXPECT_EQ(numbers(none[0]), (std::vector<double>{0, 0}));
  EXPECT_EQ(none[1].numElements(), 0);
  EXPECT_EQ(numbers(none[2]), (std::vector<double>(6, inf)));
}

TEST(Oracle, RegionCombiner) {
  // (max, sum of exp(x - max)) of 0, 1, 2, 3, 4: the sum is (1 - e^-5) / (1 - e^-1) = 1.571317432.
  auto y = evaluate(R"(
    graph @g(%x: tensor<5xf64>) -> (m: tensor<f64>, l: tensor<f64>) {
      %one = constant 1.0 : tensor<5xf64>
      %m, %l = reduce %x, %one, axes = [0], init = [-inf, 0.0] {
      ^(%m0: f64, %l0: f64, %m1: f64, %l1: f64):
        %n = max %m0, %m1 : f64
        %d0 = sub %m0, %n : f64
        %d1 = sub %m1, %n : f64
        %e0 = exp %d0 : f64
        %e1 = exp %d1 : f64
        %a = mul %l0, %e0 : f64
        %b = mul %l1, %e1 : f64
        %c = add %a, %b : f64
        yield %n, %c
      } : tensor<f64>, tensor<f64>
      return %m, %l
    }
  )",
                    {tensor({5}, {3, 1, 4, 0, 2}, DType::F64)});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].get(0), 4);
  EXPECT_NEAR(y[1].get(0), 1.571317432, 1e-9);
}

TEST(Oracle, Views) {
  auto y = evaluate(R"(
    graph @g(%x: tensor<2x3xi32>) -> (t: tensor<3x2xi32>, r: tensor<6xi32>, b: tensor<2x2x3xi32>) {
      %t = transpose %x, perm = [1, 0] : tensor<3x2xi32>
      %r = reshape %t : tensor<6xi32>
      %b = broadcast %x, dims = [1, 2] : tensor<2x2x3xi32>
      return %t, %r, %b
    }
  )",
                    {tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::I32)});
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(numbers(y[0]), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(numbers(y[1]), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(numbers(y[2]), (std::vector<double>{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
}

TEST(Oracle, FusedFunctions) {
  auto y = evaluate(R"(
    graph @g(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) at fused {
      %y = fusion %x {
      ^(%a: tensor<Nxf32>):
        %b = mul %a, %a : tensor<Nxf32>
        %c = add %b, %a : tensor<Nxf32>
        yield %c
      } : tensor<Nxf32>
      return %y
    }
  )",
                    {tensor({3}, {1, 2, 3})}, {{"N", 3}});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(numbers(y[0]), (std::vector<double>{2, 6, 12}));
}

TEST(Oracle, BatchedMatmulOfIntegers) {
  auto y = evaluate(R"(
    graph @g(%x: tensor<2x1x2xi32>, %w: tensor<2x2x1xi32>) -> (y: tensor<2x1x1xi32>) {
      %y = matmul %x, %w : tensor<2x1x1xi32>
      return %y
    }
  )",
                    {tensor({2, 1, 2}, {3, 4, 65536, 1}, DType::I32), tensor({2, 2, 1}, {5, 6, 65536, 7}, DType::I32)});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(numbers(y[0]), (std::vector<double>{39, 7})) << "2^32 wraps away";
}

TEST(Oracle, WrongInputs) {
  HostTensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6}), w = tensor({3, 2}, {1, 2, 3, 4, 5, 6}), b = tensor({2}, {1, 2});
  DimBindings dims = {{"N", 2}, {"K", 3}, {"M", 2}};
  EXPECT_EQ(errorOf(linearRelu, {x, w}, dims), ErrorCode::BadInput);
  EXPECT_EQ(errorOf(linearRelu, {x, w, x}, dims), ErrorCode::BadInput);
  EXPECT_EQ(errorOf(linearRelu, {x, w, b}, {{"N", 2}, {"K", 3}}), ErrorCode::UnboundDim);
  EXPECT_EQ(errorOf(linearRelu, {x, w, b}, {{"N", int64_t(1) << 40}, {"K", int64_t(1) << 40}, {"M", 2}}), ErrorCode::TooLarge);
}

} // namespace
