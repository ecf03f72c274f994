// Expected values are worked out by hand from IEEE 754-2019 and the rows' prose, or computed by the host's own arithmetic.
#include "minic/IR/ScalarEval.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace minic;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double quietNaN = std::numeric_limits<double>::quiet_NaN();

Scalar integer(int64_t value) { return Scalar{uint64_t(value)}; }

double eval(OpKind kind, DType dtype, std::vector<double> operands) {
  std::vector<Scalar> scalars;
  for (double operand : operands)
    scalars.push_back(Scalar::of(operand, dtype));
  return evalScalar(kind, {}, scalars, dtype, dtype).toDouble(dtype);
}

int64_t evalInt(OpKind kind, DType dtype, std::vector<int64_t> operands) {
  std::vector<Scalar> scalars;
  for (int64_t operand : operands)
    scalars.push_back(integer(operand));
  return int64_t(evalScalar(kind, {}, scalars, dtype, dtype).bits);
}

bool relation(std::string_view predicate, DType dtype, double a, double b) {
  Scalar operands[] = {Scalar::of(a, dtype), Scalar::of(b, dtype)};
  return evalScalar(OpKind::Compare, predicate, operands, dtype, DType::I1).bits != 0;
}

double convert(double value, DType from, DType to) { return convertScalar(Scalar::of(value, from), from, to).toDouble(to); }
int64_t convertInt(double value, DType from, DType to) { return int64_t(convertScalar(Scalar::of(value, from), from, to).bits); }

bool isPositiveZero(double x) { return x == 0 && !std::signbit(x); }
bool isNegativeZero(double x) { return x == 0 && std::signbit(x); }

constexpr DType floats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

template <typename T> Lanes lanesOf(DType dtype, const std::vector<T> &values, bool splat = false) {
  return {dtype, reinterpret_cast<const std::byte *>(values.data()), splat};
}

} // namespace

TEST(ScalarEval, EveryRowHasAFormForEachOfItsTypes) {
  for (const OpInfo &row : allOps()) {
    if (!row.elementwise)
      continue;
    size_t numOperands = 1 + size_t(std::count(row.operands.begin(), row.operands.end(), ','));
    for (int t = 0; t < 8; ++t) {
      DType dtype = DType(t), result = row.typeRule == TypeRule::Compare ? DType::I1 : dtype;
      if (!row.dtypes.contains(dtype))
        continue;
      std::vector<Scalar> ones(numOperands, Scalar::of(1.0, dtype));
      Scalar value = evalScalar(row.kind, row.word ? "eq" : "", ones, dtype, result);
      EXPECT_FALSE(std::isnan(value.toDouble(result))) << row.name << " on " << dtypeName(dtype);
    }
  }
}

TEST(ScalarEval, FloatArithmeticRoundsOnce) {
  EXPECT_EQ(eval(OpKind::Add, DType::F64, {1, 0x1p-53}), 1.0);
  EXPECT_EQ(eval(OpKind::Add, DType::F32, {16777216, 1}), 16777216.0);
  EXPECT_EQ(eval(OpKind::Div, DType::F32, {5, 3}), double(5.0f / 3.0f));
  EXPECT_EQ(eval(OpKind::Div, DType::F32, {1, 0}), inf);
  EXPECT_EQ(eval(OpKind::Mul, DType::F32, {0x1p-100, 0x1p-49}), 0x1p-149);
  EXPECT_EQ(eval(OpKind::Add, DType::F16, {2048, 1}), 2048.0);
  EXPECT_EQ(eval(OpKind::Add, DType::F16, {65504, 16}), inf);
  EXPECT_EQ(eval(OpKind::Mul, DType::F16, {0x1p-12, 0x1p-12}), 0x1p-24);
  EXPECT_EQ(eval(OpKind::Add, DType::BF16, {256, 1}), 256.0);
  EXPECT_EQ(eval(OpKind::Fma, DType::F64, {1 + 0x1p-52, 1 - 0x1p-52, -1}), -0x1p-104);
  EXPECT_EQ(eval(OpKind::Fma, DType::F32, {1 + 0x1p-23, 1 - 0x1p-23, -1}), -0x1p-46);
  EXPECT_EQ(eval(OpKind::Sqrt, DType::F32, {2}), double(std::sqrt(2.0f)));
  EXPECT_TRUE(isNegativeZero(eval(OpKind::Sqrt, DType::F32, {-0.0})));
  EXPECT_TRUE(std::isnan(eval(OpKind::Sqrt, DType::F64, {-1})));
}

TEST(ScalarEval, RoundingToIntegers) {
  for (DType t : floats) {
    struct Case {
      double x, floor, ceil, round;
    };
    for (Case c : {Case{0.5, 0, 1, 0}, Case{1.5, 1, 2, 2}, Case{2.5, 2, 3, 2}, Case{-2.75, -3, -2, -3}, Case{-2.5, -3, -2, -2},
                   Case{64, 64, 64, 64}, Case{0x1p-14, 0, 1, 0}, Case{-inf, -inf, -inf, -inf}, Case{inf, inf, inf, inf}}) {
      EXPECT_EQ(eval(OpKind::Floor, t, {c.x}), c.floor) << c.x << " in " << dtypeName(t);
      EXPECT_EQ(eval(OpKind::Ceil, t, {c.x}), c.ceil) << c.x << " in " << dtypeName(t);
      EXPECT_EQ(eval(OpKind::Round, t, {c.x}), c.round) << c.x << " in " << dtypeName(t);
    }
    EXPECT_TRUE(isNegativeZero(eval(OpKind::Round, t, {-0.25})));
    EXPECT_TRUE(isNegativeZero(eval(OpKind::Ceil, t, {-0.25})));
    for (OpKind kind : {OpKind::Floor, OpKind::Ceil, OpKind::Round}) {
      EXPECT_TRUE(isNegativeZero(eval(kind, t, {-0.0})));
      EXPECT_TRUE(isPositiveZero(eval(kind, t, {0.0})));
      EXPECT_TRUE(std::isnan(eval(kind, t, {quietNaN})));
    }
  }
  EXPECT_EQ(eval(OpKind::Round, DType::F64, {4503599627370495.5}), 4503599627370496.0);
  EXPECT_EQ(eval(OpKind::Round, DType::F32, {8388607.5}), 8388608.0);
}

TEST(ScalarEval, AbsSignAndClamp) {
  for (DType t : floats) {
    EXPECT_EQ(eval(OpKind::Abs, t, {-2.5}), 2.5);
    EXPECT_TRUE(isPositiveZero(eval(OpKind::Abs, t, {-0.0})));
    EXPECT_EQ(eval(OpKind::Abs, t, {-inf}), inf);
    EXPECT_TRUE(std::isnan(eval(OpKind::Abs, t, {-quietNaN})));
    EXPECT_EQ(eval(OpKind::Sign, t, {-2.5}), -1);
    EXPECT_EQ(eval(OpKind::Sign, t, {0x1p-14}), 1);
    EXPECT_EQ(eval(OpKind::Sign, t, {-inf}), -1);
    EXPECT_TRUE(isNegativeZero(eval(OpKind::Sign, t, {-0.0})));
    EXPECT_TRUE(isPositiveZero(eval(OpKind::Sign, t, {0.0})));
    EXPECT_TRUE(std::isnan(eval(OpKind::Sign, t, {quietNaN})));
    EXPECT_EQ(eval(OpKind::Clamp, t, {7, -1, 6}), 6);
    EXPECT_EQ(eval(OpKind::Clamp, t, {-7, -1, 6}), -1);
    EXPECT_EQ(eval(OpKind::Clamp, t, {2, -1, 6}), 2);
    EXPECT_EQ(eval(OpKind::Clamp, t, {2, 6, -1}), -1); // The upper bound has the last word.
    EXPECT_TRUE(isPositiveZero(eval(OpKind::Clamp, t, {-0.0, 0.0, 6})));
    for (std::vector<double> operands : {std::vector{quietNaN, 0.0, 6.0}, {1.0, quietNaN, 6.0}, {1.0, 0.0, quietNaN}})
      EXPECT_TRUE(std::isnan(eval(OpKind::Clamp, t, operands)));
  }
  constexpr int64_t min32 = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(evalInt(OpKind::Abs, DType::I32, {-7}), 7);
  EXPECT_EQ(evalInt(OpKind::Abs, DType::I32, {min32}), min32);
  EXPECT_EQ(evalInt(OpKind::Sign, DType::I32, {min32}), -1);
  EXPECT_EQ(evalInt(OpKind::Sign, DType::I64, {5}), 1);
  EXPECT_EQ(evalInt(OpKind::Sign, DType::I64, {0}), 0);
  EXPECT_EQ(evalInt(OpKind::Clamp, DType::I32, {9, -3, 3}), 3);
  EXPECT_EQ(evalInt(OpKind::Clamp, DType::I32, {-9, -3, 3}), -3);
  EXPECT_EQ(evalInt(OpKind::Clamp, DType::I32, {0, 3, -3}), -3);
}

// The table of case N-08 and its neighbours.
TEST(ScalarEval, SignedDivisionNeverTraps) {
  for (DType t : {DType::I32, DType::I64}) {
    int64_t least = t == DType::I32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
    struct Case {
      int64_t a, b, quotient, remainder;
    };
    for (Case c : {Case{7, 2, 3, 1}, Case{-7, 2, -3, -1}, Case{7, -2, -3, 1}, Case{-7, -2, 3, -1}, Case{least, -1, least, 0},
                   Case{5, 0, -1, 5}, Case{0, 0, -1, 0}, Case{least, 0, -1, least}, Case{least, 2, least / 2, 0},
                   Case{least, least, 1, 0}, Case{7, least, 0, 7}, Case{9, -1, -9, 0}}) {
      EXPECT_EQ(evalInt(OpKind::Div, t, {c.a, c.b}), c.quotient) << c.a << " / " << c.b;
      EXPECT_EQ(evalInt(OpKind::Rem, t, {c.a, c.b}), c.remainder) << c.a << " rem " << c.b;
    }
  }
}

TEST(ScalarEval, MaxMinAndReluPropagateNaNAndOrderZeros) {
  for (DType t : floats) {
    EXPECT_TRUE(std::isnan(eval(OpKind::Max, t, {quietNaN, 1}))) << dtypeName(t);
    EXPECT_TRUE(std::isnan(eval(OpKind::Max, t, {1, quietNaN})));
    EXPECT_TRUE(std::isnan(eval(OpKind::Min, t, {quietNaN, -inf})));
    EXPECT_TRUE(std::isnan(eval(OpKind::Min, t, {-inf, quietNaN})));
    EXPECT_TRUE(std::isnan(eval(OpKind::Relu, t, {quietNaN})));
    EXPECT_TRUE(isPositiveZero(eval(OpKind::Max, t, {-0.0, 0.0})));
    EXPECT_TRUE(isPositiveZero(eval(OpKind::Max, t, {0.0, -0.0})));
    EXPECT_TRUE(isNegativeZero(eval(OpKind::Min, t, {-0.0, 0.0})));
    EXPECT_TRUE(isNegativeZero(eval(OpKind::Min, t, {0.0, -0.0})));
    EXPECT_TRUE(isPositiveZero(eval(OpKind::Relu, t, {-0.0})));
    EXPECT_TRUE(isNegativeZero(eval(OpKind::Neg, t, {0.0})));
    EXPECT_EQ(eval(OpKind::Max, t, {-inf, -3}), -3);
    EXPECT_EQ(eval(OpKind::Min, t, {inf, 3}), 3);
    EXPECT_EQ(eval(OpKind::Relu, t, {-2}), 0);
    EXPECT_EQ(eval(OpKind::Relu, t, {2}), 2);
  }
}

TEST(ScalarEval, IntegersWrap) {
  constexpr int64_t min32 = std::numeric_limits<int32_t>::min(), max32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t min64 = std::numeric_limits<int64_t>::min(), max64 = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(evalInt(OpKind::Add, DType::I32, {max32, 1}), min32);
  EXPECT_EQ(evalInt(OpKind::Sub, DType::I32, {min32, 1}), max32);
  EXPECT_EQ(evalInt(OpKind::Mul, DType::I32, {65536, 65536}), 0);
  EXPECT_EQ(evalInt(OpKind::Mul, DType::I32, {-7, 3}), -21);
  EXPECT_EQ(evalInt(OpKind::Neg, DType::I32, {min32}), min32);
  EXPECT_EQ(evalInt(OpKind::Max, DType::I32, {-1, -2}), -1);
  EXPECT_EQ(evalInt(OpKind::Min, DType::Index, {-1, min64}), min64);
  for (DType t : {DType::I64, DType::Index}) {
    EXPECT_EQ(evalInt(OpKind::Add, t, {max64, 1}), min64);
    EXPECT_EQ(evalInt(OpKind::Mul, t, {max64, 2}), -2);
  }
}

TEST(ScalarEval, BitwiseAndShifts) {
  EXPECT_EQ(evalInt(OpKind::And, DType::I32, {-8, 13}), 8);
  EXPECT_EQ(evalInt(OpKind::Or, DType::I64, {-8, 1}), -7);
  EXPECT_EQ(evalInt(OpKind::Xor, DType::I32, {-1, 5}), -6);
  for (int64_t a : {0, 1})
    for (int64_t b : {0, 1}) {
      EXPECT_EQ(evalInt(OpKind::And, DType::I1, {a, b}), a & b);
      EXPECT_EQ(evalInt(OpKind::Or, DType::I1, {a, b}), a | b);
      EXPECT_EQ(evalInt(OpKind::Xor, DType::I1, {a, b}), a ^ b);
    }
  EXPECT_EQ(evalInt(OpKind::Shl, DType::I32, {1, 31}), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(evalInt(OpKind::Shl, DType::I32, {-1, 4}), -16);
  EXPECT_EQ(evalInt(OpKind::Shl, DType::I64, {3, 62}), int64_t(0xC000000000000000));
  EXPECT_EQ(evalInt(OpKind::ShrS, DType::I32, {-17, 2}), -5);
  EXPECT_EQ(evalInt(OpKind::ShrS, DType::I64, {std::numeric_limits<int64_t>::min(), 63}), -1);
  EXPECT_EQ(evalInt(OpKind::ShrU, DType::I32, {-1, 28}), 15);
  EXPECT_EQ(evalInt(OpKind::ShrU, DType::I64, {-1, 63}), 1);
  EXPECT_EQ(evalInt(OpKind::ShrU, DType::I32, {-5, 0}), -5);
  EXPECT_EQ(evalInt(OpKind::Not, DType::I32, {5}), -6);
  EXPECT_EQ(evalInt(OpKind::Not, DType::I64, {-1}), 0);
  EXPECT_EQ(evalInt(OpKind::Not, DType::I1, {0}), 1);
  EXPECT_EQ(evalInt(OpKind::Not, DType::I1, {1}), 0);
  for (int64_t beyond : {64, 65, 1000, -1}) // A negative amount is a large one.
    for (DType t : {DType::I32, DType::I64}) {
      EXPECT_EQ(evalInt(OpKind::Shl, t, {-3, beyond}), 0);
      EXPECT_EQ(evalInt(OpKind::ShrS, t, {-3, beyond}), -1);
      EXPECT_EQ(evalInt(OpKind::ShrS, t, {3, beyond}), 0);
      EXPECT_EQ(evalInt(OpKind::ShrU, t, {-3, beyond}), 0);
    }
  EXPECT_EQ(evalInt(OpKind::Shl, DType::I32, {1, 32}), 0);
  EXPECT_EQ(evalInt(OpKind::ShrU, DType::I32, {-1, 32}), 0);
}

TEST(ScalarEval, CompareIsOrderedAndExact) {
  constexpr std::string_view predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (DType t : floats)
    for (std::string_view p : predicates) {
      EXPECT_EQ(relation(p, t, 1, 2), p == "ne" || p == "lt" || p == "le") << p;
      EXPECT_EQ(relation(p, t, 2, 1), p == "ne" || p == "gt" || p == "ge") << p;
      EXPECT_EQ(relation(p, t, -0.0, 0.0), p == "eq" || p == "le" || p == "ge") << p;
      EXPECT_EQ(relation(p, t, quietNaN, 1), p == "ne") << p;
      EXPECT_EQ(relation(p, t, quietNaN, quietNaN), p == "ne") << p;
    }
  for (DType t : {DType::I32, DType::I64, DType::Index})
    EXPECT_TRUE(relation("lt", t, -1, 0));
  EXPECT_TRUE(relation("gt", DType::I1, 1, 0));
  EXPECT_TRUE(relation("lt", DType::F16, 2048, 2050)); // Neighbours.
}

TEST(ScalarEval, SelectMovesBits) {
  std::vector<uint8_t> condition = {1, 0};
  std::vector<uint16_t> a = {0x7d01, 0x7d02}, b = {0xfe03, 0xfe04}, out(2); // NaNs: a conversion would quieten the first two.
  Lanes operands[] = {lanesOf(DType::I1, condition), lanesOf(DType::F16, a), lanesOf(DType::F16, b)};
  evalElementwise(OpKind::Select, {}, operands, DType::F16, reinterpret_cast<std::byte *>(out.data()), 2);
  EXPECT_EQ(out, (std::vector<uint16_t>{0x7d01, 0xfe04}));
  Scalar scalars[] = {integer(0), integer(5), integer(-9)};
  EXPECT_EQ(int64_t(evalScalar(OpKind::Select, {}, scalars, DType::Index, DType::Index).bits), -9);
}

TEST(ScalarEval, BitcastKeepsBits) {
  Scalar one = Scalar::of(-1.0, DType::F32);
  Scalar bits = evalScalar(OpKind::Bitcast, {}, {&one, 1}, DType::F32, DType::I32);
  EXPECT_EQ(int64_t(bits.bits), int64_t(int32_t(0xbf800000)));
  EXPECT_EQ(evalScalar(OpKind::Bitcast, {}, {&bits, 1}, DType::I32, DType::F32), one);
  Scalar wide = Scalar::of(1.0, DType::F64);
  EXPECT_EQ(evalScalar(OpKind::Bitcast, {}, {&wide, 1}, DType::F64, DType::I64).bits, 0x3ff0000000000000u);
}

TEST(ScalarEval, FloatToIntegerTruncatesAndSaturates) {
  constexpr int64_t min32 = std::numeric_limits<int32_t>::min(), max32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t min64 = std::numeric_limits<int64_t>::min(), max64 = std::numeric_limits<int64_t>::max();
  for (DType t : floats) {
    EXPECT_EQ(convertInt(-2.75, t, DType::I32), -2);
    EXPECT_EQ(convertInt(2.75, t, DType::Index), 2);
    EXPECT_EQ(convertInt(quietNaN, t, DType::I32), 0);
    EXPECT_EQ(convertInt(quietNaN, t, DType::I64), 0);
    EXPECT_EQ(convertInt(inf, t, DType::I32), max32);
    EXPECT_EQ(convertInt(-inf, t, DType::I64), min64);
    EXPECT_EQ(convertInt(inf, t, DType::Index), max64);
    EXPECT_EQ(convertInt(quietNaN, t, DType::I1), 1);
    EXPECT_EQ(convertInt(-0.0, t, DType::I1), 0);
    EXPECT_EQ(convertInt(0.25, t, DType::I1), 1);
  }
  EXPECT_EQ(convertInt(0x1p31, DType::F32, DType::I32), max32);
  EXPECT_EQ(convertInt(-0x1p31, DType::F32, DType::I32), min32);
  EXPECT_EQ(convertInt(2147483647.5, DType::F64, DType::I32), max32);
  EXPECT_EQ(convertInt(2147483646.5, DType::F64, DType::I32), max32 - 1);
  EXPECT_EQ(convertInt(-2147483648.5, DType::F64, DType::I32), min32);
  EXPECT_EQ(convertInt(0x1p63, DType::F32, DType::I64), max64);
  EXPECT_EQ(convertInt(-0x1p63, DType::F64, DType::I64), min64);
}

TEST(ScalarEval, ConversionsToFloatRoundOnce) {
  EXPECT_EQ(convert(16777217, DType::I32, DType::F32), 16777216.0);
  EXPECT_EQ(convert(-2147483647, DType::I32, DType::F64), -2147483647.0);
  EXPECT_EQ(convert(true, DType::I1, DType::BF16), 1.0);
  EXPECT_EQ(convert(true, DType::I1, DType::Index), 1.0);
  EXPECT_EQ(convert(65519, DType::I32, DType::F16), 65504.0);
  EXPECT_EQ(convert(65520, DType::I32, DType::F16), inf);
  // Just above half-way between two f16 or bf16, by less than f32 (or f64) sees: through it they would tie, and go to the even one.
  EXPECT_EQ(convert(1 + 0x1p-11 + 0x1p-30, DType::F64, DType::F16), 1 + 0x1p-10);
  EXPECT_EQ(convert(1 + 0x1p-8 + 0x1p-30, DType::F64, DType::BF16), 1 + 0x1p-7);
  EXPECT_EQ(convert((int64_t(1) << 30) + (1 << 22) + 1, DType::I32, DType::BF16), 0x1p30 + 0x1p23);
  Scalar large = integer((int64_t(1) << 62) + (int64_t(1) << 54) + 1);
  EXPECT_EQ(convertScalar(large, DType::I64, DType::BF16).toDouble(DType::BF16), 0x1p62 + 0x1p55);
  EXPECT_EQ(convertScalar(integer(-int64_t(large.bits)), DType::Index, DType::BF16).toDouble(DType::BF16), -0x1p62 - 0x1p55);
  EXPECT_EQ(convertScalar(integer(std::numeric_limits<int64_t>::min()), DType::I64, DType::BF16).toDouble(DType::BF16), -0x1p63);
  Scalar tie = integer((int64_t(1) << 62) + (int64_t(1) << 38) + 1);
  EXPECT_EQ(convertScalar(tie, DType::I64, DType::F32).toDouble(DType::F32), 0x1p62 + 0x1p39);
  EXPECT_EQ(convert(0x1p-25, DType::F32, DType::F16), 0.0);
  EXPECT_EQ(convert(3.0, DType::BF16, DType::F16), 3.0);
  EXPECT_EQ(convert(0x1p100, DType::BF16, DType::F16), inf);
}

// 240 and 256 are neighbours in f8e4m3, 8 and 10 in f8e5m2.
TEST(ScalarEval, ConversionsToFloat8RoundOnce) {
  EXPECT_EQ(convert(248, DType::I32, DType::F8E4M3), 256.0);
  EXPECT_EQ(convert(232, DType::I64, DType::F8E4M3), 224.0);
  EXPECT_EQ(convert(248 - 0x1p-40, DType::F64, DType::F8E4M3), 240.0); // Through f32 it would be 248, and 256.
  EXPECT_EQ(convert(9 + 0x1p-12, DType::F32, DType::F8E5M2), 10.0);    // Through f16 it would be 9, and 8.
  Scalar aboveTie = integer((int64_t(9) << 10) + 1), large = integer(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(convertScalar(aboveTie, DType::I64, DType::F8E5M2).toDouble(DType::F8E5M2), 10240.0);
  EXPECT_EQ(convertScalar(large, DType::I64, DType::F8E5M2).bits, 0xfcu);
  EXPECT_EQ(convertScalar(large, DType::I64, DType::F8E4M3).bits, 0xffu);
  EXPECT_EQ(convert(true, DType::I1, DType::F8E4M3), 1.0);
  EXPECT_EQ(convert(-448, DType::F8E4M3, DType::I8), -128.0);
  EXPECT_TRUE(std::isnan(convert(57344, DType::F8E5M2, DType::F8E4M3)));
  EXPECT_EQ(convertInt(NAN, DType::F8E4M3, DType::I32), 0);
  EXPECT_EQ(Scalar::of(-1.5, DType::F8E4M3).bits, 0xbcu);
  EXPECT_EQ(evalScalar(OpKind::Bitcast, {}, {{Scalar{0xbc}}}, DType::F8E4M3, DType::U8).bits, 0xbcu);
}

TEST(ScalarEval, IntegerConversionsWrap) {
  EXPECT_EQ(int64_t(convertScalar(integer(-5), DType::I32, DType::Index).bits), -5);
  EXPECT_EQ(int64_t(convertScalar(integer((int64_t(1) << 32) + 7), DType::Index, DType::I32).bits), 7);
  EXPECT_EQ(int64_t(convertScalar(integer(int64_t(1) << 31), DType::I64, DType::I32).bits), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(int64_t(convertScalar(integer(256), DType::I32, DType::I1).bits), 1);
}

TEST(ScalarEval, ScalarsHoldTheBitsOfTheirType) {
  EXPECT_EQ(Scalar::of(1.0, DType::F16).bits, 0x3c00u);
  EXPECT_EQ(Scalar::of(1.0, DType::BF16).bits, 0x3f80u);
  EXPECT_EQ(Scalar::of(1.0, DType::F32).bits, 0x3f800000u);
  EXPECT_EQ(Scalar::of(-1.0, DType::I32).bits, ~uint64_t(0));
  EXPECT_EQ(Scalar::of(1.0, DType::I1).bits, 1u);
  EXPECT_EQ(Scalar::of(1.0 / 3, DType::F32).toDouble(DType::F32), double(1.0f / 3.0f));
}

// More lanes than a block, each operand in turn a splat: the same as lane by lane.
TEST(ScalarEval, ArraysAndSplatsAgreeWithScalars) {
  constexpr int64_t count = 300;
  for (DType t : floats)
    for (int splats = 0; splats < 8; ++splats) {
      size_t bytes = size_t(dtypeBytes(t));
      std::vector<std::byte> data[3];
      std::vector<Lanes> lanes;
      for (int j = 0; j < 3; ++j) {
        data[j].resize(count * bytes);
        for (int64_t i = 0; i < count; ++i) {
          Scalar value = Scalar::of(double(i * (j + 3) % 97) / 8 - 5, t);
          std::memcpy(data[j].data() + size_t(i) * bytes, &value.bits, bytes);
        }
        lanes.push_back({t, data[j].data(), bool(splats >> j & 1)});
      }
      auto scalarAt = [&](int j, int64_t i) {
        Scalar value;
        std::memcpy(&value.bits, data[j].data() + (lanes[size_t(j)].splat ? 0 : size_t(i) * bytes), bytes);
        return value;
      };
      for (OpKind kind : {OpKind::Neg, OpKind::Exp, OpKind::Sub, OpKind::Max, OpKind::Fma}) {
        if (kind == OpKind::Fma && isNarrowFloat(t))
          continue;
        size_t numOperands = kind == OpKind::Fma ? 3 : kind == OpKind::Neg || kind == OpKind::Exp ? 1 : 2;
        std::vector<std::byte> out(count * bytes);
        evalElementwise(kind, {}, std::span(lanes).first(numOperands), t, out.data(), count);
        for (int64_t i = 0; i < count; ++i) {
          Scalar operands[] = {scalarAt(0, i), scalarAt(1, i), scalarAt(2, i)}, got;
          std::memcpy(&got.bits, out.data() + size_t(i) * bytes, bytes);
          ASSERT_EQ(got, evalScalar(kind, {}, std::span(operands).first(numOperands), t, t))
              << opInfo(kind).name << " on " << dtypeName(t) << ", lane " << i;
        }
      }
    }
}

TEST(ScalarEval, NoLanes) {
  std::vector<float> none;
  Lanes operand = lanesOf(DType::F32, none);
  evalElementwise(OpKind::Exp, {}, {&operand, 1}, DType::F32, nullptr, 0);
}
