// The bodies in lib/IR/Math against the host's libm in a wider type.
#include "minic/IR/MathLibrary.h"
#include "minic/IR/ScalarEval.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numbers>
#include <random>
#include <thread>
#include <vector>

using namespace minic;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double quietNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T> constexpr DType dtypeOf = sizeof(T) == 4 ? DType::F32 : DType::F64;

template <typename T> void apply(OpKind kind, const std::vector<T> &x, std::vector<T> &y) {
  Lanes operand{dtypeOf<T>, reinterpret_cast<const std::byte *>(x.data())};
  y.resize(x.size());
  evalElementwise(kind, {}, {&operand, 1}, operand.dtype, reinterpret_cast<std::byte *>(y.data()), int64_t(x.size()));
}

template <typename T> T apply(OpKind kind, T x) {
  std::vector<T> y;
  apply<T>(kind, std::vector<T>{x}, y);
  return y[0];
}

/// |y - right| in units in the last place of T at `right`; infinity where they differ in being NaN or infinite.
template <typename T> double ulpsApart(T y, long double right) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(y) || std::isnan(right))
    return std::isnan(y) && std::isnan(right) ? 0 : inf;
  if (std::isinf(y) && T(right) == y)
    return 0; // The true value is infinite, or rounds to infinity.
  if (std::isinf(y) || std::isinf(right))
    return inf;
  int exponent = Limits::min_exponent;
  if (right != 0)
    std::frexp(right, &exponent);
  return double(std::fabs(y - right) / std::ldexp(1.0L, std::max(exponent, int(Limits::min_exponent)) - Limits::digits));
}

/// The true functions in R: double is exact enough for f32, and fast.
template <typename R> R sigmoid(R x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
/// x p, where p falls to 0 faster than x grows.
template <typename R> R timesProbability(R x, R p) { return p == 0 ? R(-0.0) : x * p; }

template <typename R> R right(OpKind kind, R x) {
  switch (kind) {
  case OpKind::Exp:
    return std::exp(x);
  case OpKind::Exp2:
    return std::exp2(x);
  case OpKind::Expm1:
    return std::expm1(x);
  case OpKind::Log:
    return std::log(x);
  case OpKind::Log2:
    return std::log2(x);
  case OpKind::Log1p:
    return std::log1p(x);
  case OpKind::Tanh:
    return std::tanh(x);
  case OpKind::Sigmoid:
    return sigmoid(x);
  case OpKind::Silu:
    return timesProbability(x, sigmoid(x));
  case OpKind::Erf:
    return std::erf(x);
  case OpKind::Gelu:
    return timesProbability(x, std::erfc(-x / std::numbers::sqrt2_v<R>) / 2);
  case OpKind::GeluTanh:
    return timesProbability(x, sigmoid(2 * std::sqrt(2 / std::numbers::pi_v<R>) * (x + R(0.044715L) * x * x * x)));
  case OpKind::Sin:
    return std::sin(x);
  case OpKind::Cos:
    return std::cos(x);
  default:
    return R(quietNaN);
  }
}

/// What the rows promise, and half a unit where 80 bits do not hold the exponent of the true value. The bodies say what they reach;
/// a coefficient that is off in its last digits fails here.
template <typename T> double tolerance(OpKind kind) {
  return kind == OpKind::Gelu ? 4 : kind == OpKind::GeluTanh && sizeof(T) == 8 ? 1.5 : 1;
}

template <typename T> void expectWithinTolerance(OpKind kind, const std::vector<T> &x) {
  using R = std::conditional_t<sizeof(T) == 4, double, long double>;
  std::vector<T> y;
  apply(kind, x, y);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (double apart = ulpsApart(y[i], right(kind, R(x[i]))); !(apart <= worst)) {
      worst = apart;
      at = x[i];
    }
  EXPECT_LE(worst, tolerance<T>(kind)) << opInfo(kind).name << " at " << at << " is " << apply(kind, at);
}

/// Bit patterns spread over all of T: both signs, all exponents, NaNs.
template <typename T> std::vector<T> everyNth(uint64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::vector<T> values;
  Bits step = Bits(std::numeric_limits<Bits>::max() / count) | 1, bits = 0;
  for (uint64_t i = 0; i < count; ++i, bits += step)
    values.push_back(std::bit_cast<T>(bits));
  return values;
}

/// `count` values from `low` to `high`, in equal steps.
template <typename T> std::vector<T> spread(double low, double high, int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i)
    values.push_back(T(low + (high - low) * (i + 0.37) / count));
  return values;
}

/// `x` and the 200 values on each side of it.
template <typename T> std::vector<T> around(T x) {
  std::vector<T> values = {x};
  T below = x, above = x;
  for (int i = 0; i < 200; ++i) {
    values.push_back(below = std::nextafter(below, T(-inf)));
    values.push_back(above = std::nextafter(above, T(inf)));
  }
  return values;
}

template <typename T> bool isZero(T x, bool negative = false) { return x == 0 && std::signbit(x) == negative; }

template <typename T> class Math : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Math, Floats);

} // namespace

TEST(MathLibrary, BodiesArePrimitivesAndVerify) {
  for (const OpInfo &row : allOps())
    for (DType t : {DType::F32, DType::F64}) {
      if (!row.expands || !row.dtypes.contains(t))
        continue;
      const Function &body = mathBody(row.kind, t);
      EXPECT_EQ(body.level, Level::Machine);
      ASSERT_EQ(body.params().size(), 1u + size_t(std::count(row.operands.begin(), row.operands.end(), ',')));
      for (const Value *param : body.params())
        EXPECT_EQ(param->type().dtype(), t);
      ASSERT_EQ(body.resultTypes.size(), 1u);
      EXPECT_EQ(body.resultTypes[0], body.params()[0]->type());
      for (const Operation &op : body.body()) {
        EXPECT_TRUE(op.info().elementwise || op.is(OpKind::Constant) || op.info().terminator) << op.info().name;
        EXPECT_FALSE(op.info().expands) << op.info().name;
        EXPECT_TRUE(op.info().terminator || op.result()->hasUses()) << body.name << ": %" << op.result()->name();
      }
      Diagnostics findings = verify(body.module());
      EXPECT_TRUE(findings.empty()) << body.name << ": " << renderDiagnostics(findings, nullptr);
    }
}

TYPED_TEST(Math, FunctionsWithinTolerance) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  bool narrow = sizeof(T) == 4;
  for (const OpInfo &row : allOps()) {
    if (!row.expands || row.levels != anyLevel || row.operands.find(',') != row.operands.npos || row.kind == OpKind::Rsqrt)
      continue;
    OpKind kind = row.kind;
    expectWithinTolerance(kind, everyNth<T>(60'000));
    expectWithinTolerance(kind, spread<T>(-1.5, 1.5, 60'000));
    expectWithinTolerance(kind, spread<T>(-20, 20, 40'000));
    expectWithinTolerance(kind, narrow ? spread<T>(-155, 130, 40'000) : spread<T>(-1080, 1030, 40'000));
    // Where bodies change: clamps, reductions, the first denormal and the first infinite result.
    for (double x : {0.0, 0.25, 0.34657, 0.5, 0.75, 2.0 / 3, std::sqrt(0.5), 1.0, 4.0 / 3, std::sqrt(2.0), 2.0, 4.0, 6.0})
      for (double y : {x, -x, x - 1})
        expectWithinTolerance(kind, around(T(y)));
    for (double x : narrow
                        ? std::vector{-150., -149., -126., -104., -103.97, -87.33655, 88.0, 88.72283, 128.0, 8.5, 9.0, -13.3, -14.5}
                        : std::vector{-1075., -1074., -1022., -745.1332191019412, -708.3964185322641, 709.0, 709.782712893384,
                                      1024.0, 18.0, 19.1, -37.6, -38.6, 39.5})
      expectWithinTolerance(kind, around(T(x)));
    for (T x : {Limits::min(), Limits::max(), Limits::lowest(), Limits::denorm_min()})
      expectWithinTolerance(kind, around(x));
  }
}

/// Next to multiples of pi / 2 sine and cosine are small, and all digits of pi count. The operands are those of their type where
/// they come closest (Muller, "Elementary Functions", 2016, chapter 11).
TEST(MathLibrary, SineAndCosineOfLargeNumbers) {
  std::vector<float> f32;
  std::vector<double> f64;
  for (int n = 1; n < 3000; ++n) {
    f32.push_back(float(n * (std::numbers::pi_v<long double> / 2)));
    f64.push_back(double(n * (std::numbers::pi_v<long double> / 2)));
  }
  f64.push_back(std::ldexp(6381956970095103, 797));
  f32.push_back(std::ldexp(16367173.0f, 72));
  for (OpKind kind : {OpKind::Sin, OpKind::Cos}) {
    expectWithinTolerance(kind, f32);
    expectWithinTolerance(kind, f64);
  }
}

TYPED_TEST(Math, PowWithinTolerance) {
  using T = TypeParam;
  using R = std::conditional_t<sizeof(T) == 4, double, long double>;
  int range = sizeof(T) == 4 ? 150 : 1075;
  std::vector<T> x, y, result(150'000);
  std::mt19937_64 random(1);
  auto uniform = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int i = 0; i < 50'000; ++i) { // Results of all sizes: y log2 x up to the range.
    for (double base :
         {std::exp2(uniform(-range, range)),
          1 + std::copysign(std::exp2(-uniform(1, std::numeric_limits<T>::digits)), uniform(-1, 1)), uniform(0.3, 3)}) {
      x.push_back(T(base));
      y.push_back(T(uniform(-range, range) / std::log2(base)));
    }
  }
  Lanes operands[] = {{dtypeOf<T>, reinterpret_cast<const std::byte *>(x.data())},
                      {dtypeOf<T>, reinterpret_cast<const std::byte *>(y.data())}};
  evalElementwise(OpKind::Pow, {}, operands, dtypeOf<T>, reinterpret_cast<std::byte *>(result.data()), int64_t(x.size()));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(ulpsApart(result[i], std::pow(R(x[i]), R(y[i]))), 1) << x[i] << " to the power " << y[i] << " is " << result[i];
}

// C17, F.10.4.4, each line; the host's pow follows it.
TYPED_TEST(Math, PowOfSpecialValues) {
  using T = TypeParam;
  auto pow = [](T x, T y) {
    Lanes operands[] = {{dtypeOf<T>, reinterpret_cast<const std::byte *>(&x)},
                        {dtypeOf<T>, reinterpret_cast<const std::byte *>(&y)}};
    T result;
    evalElementwise(OpKind::Pow, {}, operands, dtypeOf<T>, reinterpret_cast<std::byte *>(&result), 1);
    return result;
  };
  const T values[] = {0,
                      T(-0.0),
                      1,
                      -1,
                      2,
                      -2,
                      T(0.5),
                      T(-0.5),
                      3,
                      -3,
                      T(1.5),
                      T(-1.5),
                      T(inf),
                      T(-inf),
                      T(quietNaN),
                      16777215,
                      16777216,
                      -16777215,
                      T(1e30),
                      T(-1e30),
                      std::numeric_limits<T>::denorm_min(),
                      std::nextafter(T(1), T(2)),
                      std::nextafter(T(1), T(0)),
                      T(9007199254740991.0),
                      T(-9007199254740991.0)};
  for (T x : values)
    for (T y : values) {
      T expected = std::pow(x, y), got = pow(x, y);
      EXPECT_EQ(std::isnan(got), std::isnan(expected)) << x << " to the power " << y;
      EXPECT_TRUE(std::isnan(expected) || std::signbit(got) == std::signbit(expected))
          << x << " to the power " << y << " is " << got;
      EXPECT_LE(ulpsApart(got, expected), 1.5) << x << " to the power " << y;
    }
  EXPECT_EQ(pow(T(quietNaN), 0), 1);
  EXPECT_EQ(pow(1, T(quietNaN)), 1);
  EXPECT_EQ(pow(-1, T(inf)), 1);
  EXPECT_TRUE(isZero(pow(T(-0.0), 3), true));
  EXPECT_EQ(pow(T(-0.0), -3), T(-inf));
  EXPECT_TRUE(std::isnan(pow(-2, T(0.5))));
  EXPECT_EQ(pow(-2, 3), -8);
  EXPECT_EQ(pow(10, 2), 100);
}

TYPED_TEST(Math, RsqrtIsTwoCorrectlyRoundedSteps) {
  using T = TypeParam;
  std::vector<T> x = everyNth<T>(20'000), y;
  apply(OpKind::Rsqrt, x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    T expected = T(1) / std::sqrt(x[i]);
    ASSERT_TRUE(y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))) << x[i];
  }
}

TYPED_TEST(Math, SpecialValues) {
  using T = TypeParam;
  EXPECT_EQ(apply(OpKind::Exp, T(0)), T(1));
  EXPECT_EQ(apply(OpKind::Exp, T(-0.0)), T(1));
  EXPECT_TRUE(isZero(apply(OpKind::Exp, T(-inf))));
  EXPECT_EQ(apply(OpKind::Exp, T(inf)), T(inf));
  EXPECT_TRUE(std::isnan(apply(OpKind::Exp, T(quietNaN))));
  EXPECT_TRUE(std::isnan(apply(OpKind::Exp, T(-quietNaN))));
  EXPECT_TRUE(isZero(apply(OpKind::Exp, std::numeric_limits<T>::lowest())));
  EXPECT_EQ(apply(OpKind::Exp, std::numeric_limits<T>::max()), T(inf));

  EXPECT_TRUE(isZero(apply(OpKind::Log, T(1))));
  EXPECT_EQ(apply(OpKind::Log, T(0)), T(-inf));
  EXPECT_EQ(apply(OpKind::Log, T(-0.0)), T(-inf));
  EXPECT_EQ(apply(OpKind::Log, T(inf)), T(inf));
  for (T x : {T(-1), T(-inf), T(quietNaN), -std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::lowest()})
    EXPECT_TRUE(std::isnan(apply(OpKind::Log, x))) << x;

  for (OpKind kind :
       {OpKind::Expm1, OpKind::Log1p, OpKind::Tanh, OpKind::Silu, OpKind::Erf, OpKind::Gelu, OpKind::GeluTanh, OpKind::Sin}) {
    EXPECT_TRUE(isZero(apply(kind, T(0)))) << opInfo(kind).name;
    EXPECT_TRUE(isZero(apply(kind, T(-0.0)), true)) << opInfo(kind).name;
  }
  for (OpKind kind : {OpKind::Silu, OpKind::Gelu, OpKind::GeluTanh}) {
    EXPECT_TRUE(isZero(apply(kind, T(-inf)), true)) << opInfo(kind).name;
    EXPECT_TRUE(isZero(apply(kind, std::numeric_limits<T>::lowest()), true)) << opInfo(kind).name;
    EXPECT_EQ(apply(kind, T(inf)), T(inf));
    EXPECT_EQ(apply(kind, std::numeric_limits<T>::max()), std::numeric_limits<T>::max());
  }
  for (OpKind kind : {OpKind::Tanh, OpKind::Erf}) {
    EXPECT_EQ(apply(kind, T(inf)), 1);
    EXPECT_EQ(apply(kind, T(-inf)), -1);
    for (T x : spread<T>(0, 50, 10'000))
      ASSERT_LE(apply(kind, x), 1) << opInfo(kind).name << " of " << x;
  }
  EXPECT_EQ(apply(OpKind::Sigmoid, T(0)), T(0.5));
  EXPECT_TRUE(isZero(apply(OpKind::Sigmoid, T(-inf))));
  EXPECT_EQ(apply(OpKind::Sigmoid, T(inf)), 1);
  EXPECT_EQ(apply(OpKind::Expm1, T(-inf)), -1);
  EXPECT_EQ(apply(OpKind::Log1p, T(-1)), T(-inf));
  EXPECT_EQ(apply(OpKind::Log1p, T(inf)), T(inf));
  EXPECT_EQ(apply(OpKind::Cos, T(-0.0)), 1);
  for (int n = -126; n < 128; ++n) {
    EXPECT_EQ(apply(OpKind::Exp2, T(n)), std::ldexp(T(1), n));
    EXPECT_EQ(apply(OpKind::Log2, std::ldexp(T(1), n)), n);
  }
  for (T x : {T(inf), T(-inf)}) {
    EXPECT_TRUE(std::isnan(apply(OpKind::Sin, x)));
    EXPECT_TRUE(std::isnan(apply(OpKind::Cos, x)));
  }
  for (T x : {T(-2), T(-inf), T(quietNaN)}) {
    EXPECT_TRUE(std::isnan(apply(OpKind::Log2, x)));
    EXPECT_TRUE(std::isnan(apply(OpKind::Log1p, x)));
  }
  for (const OpInfo &row : allOps())
    if (row.expands && row.operands == "operand" && row.dtypes.contains(std::is_same_v<T, float> ? DType::F32 : DType::F64)) {
      EXPECT_TRUE(std::isnan(apply(row.kind, T(quietNaN)))) << row.name;
      EXPECT_TRUE(std::isnan(apply(row.kind, T(-quietNaN)))) << row.name;
    }

  EXPECT_EQ(apply(OpKind::Rsqrt, T(0)), T(inf));
  EXPECT_EQ(apply(OpKind::Rsqrt, T(-0.0)), T(-inf));
  EXPECT_TRUE(isZero(apply(OpKind::Rsqrt, T(inf))));
  EXPECT_TRUE(std::isnan(apply(OpKind::Rsqrt, T(-1))));
  EXPECT_EQ(apply(OpKind::Rsqrt, T(4)), T(0.5));
}

// Tails and denormals that others got wrong: Triton pull request 8551, TVM 16438, PyTorch 188546 and 125557, JAX 37762.
TEST(MathLibrary, Tails) {
  EXPECT_LE(ulpsApart(apply(OpKind::Exp, -100.0f), 3.720076e-44L), 1);
  EXPECT_LE(ulpsApart(apply(OpKind::Exp, -87.5f), 9.982351e-39L), 1);
  EXPECT_TRUE(isZero(apply(OpKind::Exp, -104.0f)));
  EXPECT_EQ(apply(OpKind::Exp, -103.9f), 0x1p-149f);
  EXPECT_LE(ulpsApart(apply(OpKind::Exp, 88.7f), 3.3259769e38L), 1);
  EXPECT_LT(apply(OpKind::Exp, 88.72283f), float(inf));
  EXPECT_EQ(apply(OpKind::Exp, 88.73f), float(inf));
  EXPECT_EQ(apply(OpKind::Exp, -745.0), 0x1p-1074);
  EXPECT_TRUE(isZero(apply(OpKind::Exp, -746.0)));
  EXPECT_EQ(apply(OpKind::Tanh, 1e-8f), 9.99999994e-9f);
  for (float x : {45.0f, 50.0f, 89.0f})
    EXPECT_EQ(apply(OpKind::Tanh, x), 1);
  EXPECT_EQ(apply(OpKind::Tanh, -50.0f), -1);
  EXPECT_TRUE(isZero(apply(OpKind::Sigmoid, -1000.0f)));
  EXPECT_LE(ulpsApart(apply(OpKind::Sigmoid, -100.0f), 3.720076e-44L), 1);
  EXPECT_LE(ulpsApart(apply(OpKind::Sigmoid, -89.0f), 2.2273639e-39L), 1);
  EXPECT_EQ(apply(OpKind::Sigmoid, 100.0f), 1);
  EXPECT_LE(ulpsApart(apply(OpKind::Log, 1e-40f), -92.103409L), 1);
  EXPECT_LE(ulpsApart(apply(OpKind::Rsqrt, 1e-40f), 1.0000027e20L), 1);
}

// Where 0.5 x (1 + erf(x / sqrt(2))) cancels: PyTorch issue 187806. Values from mpmath.
TEST(MathLibrary, GeluInTheTail) {
  struct Case {
    float x;
    double gelu;
  };
  for (Case c : {Case{-1, -0.158655253931457},
                 {-3, -4.04969409489028e-3},
                 {-4, -1.2668496733248e-4},
                 {-5, -1.43325785939597e-6},
                 {-5.5, -1.04442593562382e-7},
                 {-6, -5.91952587022619e-9},
                 {-8, -4.97676845941743e-15},
                 {-10, -7.61985302416053e-23},
                 {-13, -7.95231371941484e-38},
                 {5, 4.99999856674214},
                 {10, 10}})
    EXPECT_NEAR(apply(OpKind::Gelu, c.x), c.gelu, std::fabs(c.gelu) * (c.x < -8 ? 1e-6 : 3e-7)) << c.x;
  for (Case c : {Case{-4, -7.0245948e-5}, {-5, -2.2917962e-7}, {-6, -8.4396467e-11}, {-8, -3.1077829e-21}})
    EXPECT_NEAR(apply(OpKind::GeluTanh, c.x), c.gelu, std::fabs(c.gelu) * 1e-7) << c.x;
}

TEST(MathLibrary, NarrowFloatsAreComputedInF32) {
  auto exp = [](double x, DType t) {
    Scalar operand = Scalar::of(x, t);
    return evalScalar(OpKind::Exp, {}, {&operand, 1}, t, t).toDouble(t);
  };
  EXPECT_EQ(exp(11, DType::F16), 59872);
  EXPECT_EQ(exp(11.5, DType::F16), inf);
  EXPECT_EQ(exp(-100, DType::BF16), roundToDType(std::exp(-100.0f), DType::BF16));
  EXPECT_EQ(exp(1, DType::BF16), roundToDType(std::exp(1.0f), DType::BF16));
}

TEST(MathLibrary, ExpOfNonpositiveHasTheBitsOfExp) {
  std::vector<float> x, exp, nonpositive;
  for (float value : everyNth<float>(4'000'000))
    if (!(value > 0))
      x.push_back(value);
  for (const std::vector<float> &more : {spread<float>(-104.5, 0, 1'000'000), around(-87.33655f), around(-103.97208f)})
    x.insert(x.end(), more.begin(), more.end());
  x.insert(x.end(), {0.0f, -0.0f, -104.0f, float(-inf)});
  apply(OpKind::Exp, x, exp);
  apply(OpKind::ExpNonpositive, x, nonpositive);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(std::isnan(x[i]) ? std::isnan(nonpositive[i]) : std::bit_cast<int>(nonpositive[i]) == std::bit_cast<int>(exp[i]))
        << x[i] << " gives " << nonpositive[i] << ", not " << exp[i];
}

TEST(MathLibrary, ExpHalfIsExactEnoughForSixteenBits) {
  for (float x : spread<float>(-87.3, 88.7, 1'000'000)) {
    double right = std::exp(double(x)), apart = std::fabs(double(apply(OpKind::ExpHalf, x)) - right);
    ASSERT_LE(apart, right * 0x1p-17) << x;
  }
  EXPECT_EQ(apply(OpKind::ExpHalf, float(-inf)), 0);
  EXPECT_EQ(apply(OpKind::ExpHalf, -200.0f), 0);
  EXPECT_EQ(apply(OpKind::ExpHalf, 100.0f), float(inf));
  EXPECT_EQ(apply(OpKind::ExpHalf, 0.0f), 1);
}

/// All values of f16 and bf16, and f32 in between: a sum of 16-bit values is an operand too.
static std::vector<float> operandsOfHalfForms() {
  std::vector<float> x;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    x.push_back(std::bit_cast<float>(bits << 16));
    Scalar half{.bits = uint64_t(bits)};
    x.push_back(float(half.toDouble(DType::F16)));
  }
  for (const std::vector<float> &more :
       {spread<float>(-15, 15, 400'000), spread<float>(-120, 20, 100'000), spread<float>(-0.02, 0.02, 100'000),
        everyNth<float>(500'000), around(0.0078125f), around(-0.0078125f)})
    x.insert(x.end(), more.begin(), more.end());
  return x;
}

static void expectExactEnough(OpKind half, OpKind kind, const std::vector<float> &x) {
  std::vector<float> y;
  apply(half, x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    double expected = right(kind, double(x[i]));
    bool isRight = std::isnan(expected)   ? std::isnan(y[i])
                   : std::isinf(expected) ? y[i] == expected
                                          : std::fabs(y[i] - expected) <= std::max(std::fabs(expected), 0x1p-126) * 0x1p-14;
    // Zeros, and what rounds to them, keep the sign; a result below 2^-126 is there.
    bool isThere =
        std::isnan(expected) || (std::signbit(y[i]) == std::signbit(expected) && (y[i] != 0 || std::fabs(expected) < 0x1p-140));
    ASSERT_TRUE(isRight && isThere) << opInfo(half).name << " of " << x[i] << " is " << y[i] << ", not " << expected;
  }
}

TEST(MathLibrary, HalfFormsAreExactEnoughForSixteenBits) {
  const std::vector<float> x = operandsOfHalfForms();
  expectExactEnough(OpKind::TanhHalf, OpKind::Tanh, x);
  expectExactEnough(OpKind::SigmoidHalf, OpKind::Sigmoid, x);
  expectExactEnough(OpKind::SiluHalf, OpKind::Silu, x);
  expectExactEnough(OpKind::ErfHalf, OpKind::Erf, x);
  expectExactEnough(OpKind::GeluHalf, OpKind::Gelu, x);
  expectExactEnough(OpKind::GeluTanhHalf, OpKind::GeluTanh, x);
  for (OpKind kind : {OpKind::SiluHalf, OpKind::GeluHalf, OpKind::GeluTanhHalf})
    EXPECT_TRUE(isZero(apply(kind, float(-inf)), true)) << opInfo(kind).name;
}

TEST(MathLibrary, ThreadsAgree) {
  std::vector<float> x = spread<float>(-20, 20, 1000), expected;
  apply(OpKind::Exp, x, expected);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<float> &result : results)
    threads.emplace_back([&x, &result] {
      EXPECT_EQ(mathBody(OpKind::Log, DType::F64).name, "log_f64");
      apply(OpKind::Exp, x, result);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::vector<float> &result : results)
    EXPECT_EQ(result, expected);
}
