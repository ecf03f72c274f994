// The bodies of Math.ir against the host's libm in a wider type.
#include "minic/IR/MathLibrary.h"
#include "minic/IR/ScalarEval.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
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

template <typename T> long double right(OpKind kind, T x) {
  if constexpr (sizeof(T) == 4) // f64 is exact enough, and faster.
    return kind == OpKind::Exp ? std::exp(double(x)) : std::log(double(x));
  else
    return kind == OpKind::Exp ? std::exp((long double)(x)) : std::log((long double)(x));
}

/// The documented bound. Math.ir says what the bodies reach; a coefficient that is off in its last digits fails here.
constexpr double tolerance = 1.0;

template <typename T> void expectWithinTolerance(OpKind kind, const std::vector<T> &x) {
  std::vector<T> y;
  apply(kind, x, y);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (double apart = ulpsApart(y[i], right(kind, x[i])); !(apart <= worst)) {
      worst = apart;
      at = x[i];
    }
  EXPECT_LE(worst, tolerance) << opInfo(kind).name << " at " << at << " is " << apply(kind, at);
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
      if (!row.expands)
        continue;
      const Function &body = mathBody(row.kind, t);
      EXPECT_EQ(body.level, Level::Machine);
      ASSERT_EQ(body.params().size(), 1u);
      EXPECT_EQ(body.params()[0]->type().dtype(), t);
      ASSERT_EQ(body.resultTypes.size(), 1u);
      EXPECT_EQ(body.resultTypes[0], body.params()[0]->type());
      for (const Operation &op : body.body()) {
        EXPECT_TRUE(op.info().elementwise || op.is(OpKind::Constant) || op.info().terminator) << op.info().name;
        EXPECT_FALSE(op.info().expands) << op.info().name;
        EXPECT_TRUE(op.info().terminator || op.result()->hasUses()) << body.name << ": %" << op.result()->name();
      }
    }
  Diagnostics findings = verify(mathBody(OpKind::Exp, DType::F32).module());
  SourceBuffer source("Math.ir", std::string(mathLibraryText()));
  EXPECT_TRUE(findings.empty()) << renderDiagnostics(findings, &source);
}

TYPED_TEST(Math, ExpWithinTolerance) {
  using T = TypeParam;
  expectWithinTolerance(OpKind::Exp, everyNth<T>(200'000));
  expectWithinTolerance(OpKind::Exp, spread<T>(-1, 1, 150'000));
  if (sizeof(T) == 4) {
    expectWithinTolerance(OpKind::Exp, spread<T>(-105, 89.5, 150'000));
    for (T x : {-104.0, -103.97, -87.33655, 88.72283, 0.34657, -0.34657, 1.0})
      expectWithinTolerance(OpKind::Exp, around(x));
  } else {
    expectWithinTolerance(OpKind::Exp, spread<T>(-747, 711, 150'000));
    for (T x : {-745.1332191019412, -708.3964185322641, 709.782712893384, 0.34657, -0.34657, 1.0})
      expectWithinTolerance(OpKind::Exp, around(x));
  }
  expectWithinTolerance(OpKind::Exp, around(T(0)));
}

TYPED_TEST(Math, LogWithinTolerance) {
  using T = TypeParam;
  expectWithinTolerance(OpKind::Log, everyNth<T>(200'000));
  expectWithinTolerance(OpKind::Log, spread<T>(0.25, 4, 150'000));
  for (T x :
       {T(0), std::numeric_limits<T>::min(), T(0.5), T(2.0 / 3), T(std::sqrt(0.5)), T(1), T(4.0 / 3), T(std::sqrt(2.0)), T(2)})
    expectWithinTolerance(OpKind::Log, around(x));
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
  EXPECT_LE(ulpsApart(apply(OpKind::Log, 1e-40f), -92.103409L), 1);
  EXPECT_LE(ulpsApart(apply(OpKind::Rsqrt, 1e-40f), 1.0000027e20L), 1);
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
