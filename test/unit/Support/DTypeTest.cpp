#include "minic/Support/DType.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace minic;

namespace {

/// The value of a 16-bit float by the definition of the format.
double valueOf(uint16_t bits, int mantissaBits) {
  int exponentBits = 15 - mantissaBits, bias = (1 << (exponentBits - 1)) - 1;
  int exponent = bits >> mantissaBits & ((1 << exponentBits) - 1), mantissa = bits & ((1 << mantissaBits) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits);
}

float fromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(DType, Table) {
  EXPECT_EQ(dtypeName(DType::BF16), "bf16");
  EXPECT_EQ(parseDType("i1"), DType::I1);
  EXPECT_EQ(parseDType("f8"), std::nullopt);
  EXPECT_EQ(parseDType(""), std::nullopt);
  EXPECT_EQ(dtypeBytes(DType::F64), 8);
  EXPECT_EQ(dtypeBytes(DType::F16), 2);
  EXPECT_EQ(dtypeBytes(DType::I1), 1);
  EXPECT_TRUE(isFloat(DType::F16) && isNarrowFloat(DType::BF16));
  EXPECT_FALSE(isFloat(DType::I32) || isNarrowFloat(DType::F32));
  EXPECT_EQ((DType::F32 | DType::F16).str(), "f32, f16");
  EXPECT_TRUE(DTypeSet().empty());
}

TEST(DType, EveryHalfAndBfloatRoundTrips) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    uint16_t bits = uint16_t(i);
    double half = valueOf(bits, 10), bfloat = valueOf(bits, 7);
    if (std::isnan(half)) {
      ASSERT_TRUE(std::isnan(halfToFloat(bits))) << i;
      ASSERT_TRUE(std::isnan(valueOf(floatToHalf(halfToFloat(bits)), 10))) << i;
    } else {
      ASSERT_EQ(halfToFloat(bits), half) << i;
      ASSERT_EQ(std::signbit(halfToFloat(bits)), std::signbit(half)) << i;
      ASSERT_EQ(floatToHalf(halfToFloat(bits)), bits) << i;
      ASSERT_EQ(doubleToHalf(half), bits) << i;
    }
    if (std::isnan(bfloat)) {
      ASSERT_TRUE(std::isnan(bfloatToFloat(bits))) << i;
      ASSERT_TRUE(std::isnan(valueOf(floatToBfloat(bfloatToFloat(bits)), 7))) << i;
    } else {
      ASSERT_EQ(bfloatToFloat(bits), bfloat) << i;
      ASSERT_EQ(floatToBfloat(bfloatToFloat(bits)), bits) << i;
      ASSERT_EQ(doubleToBfloat(bfloat), bits) << i;
    }
  }
}

/// Every neighbouring pair: just below, at and just above half-way.
template <typename Narrow> void checkMidpoints(int mantissaBits, uint16_t infinity, Narrow narrow) {
  for (uint32_t i = 0; i < infinity; ++i) {
    double low = valueOf(uint16_t(i), mantissaBits);
    double high = i + 1 == infinity ? 2 * low - valueOf(uint16_t(i - 1), mantissaBits) : valueOf(uint16_t(i + 1), mantissaBits);
    double middle = low + (high - low) / 2;
    uint16_t even = uint16_t(i + (i & 1));
    ASSERT_EQ(narrow(middle), even) << i;
    ASSERT_EQ(narrow(-middle), even | 0x8000) << i;
    ASSERT_EQ(narrow(std::nextafter(middle, 0)), i) << i;
    ASSERT_EQ(narrow(std::nextafter(middle, HUGE_VAL)), i + 1) << i;
  }
}

TEST(DType, TiesGoToEven) {
  checkMidpoints(10, 0x7c00, doubleToHalf);
  checkMidpoints(7, 0x7f80, doubleToBfloat);
}

/// The value of an 8-bit float by the definition of the format.
double valueOfFloat8(uint8_t code, DType t) {
  int mantissaBits = t == DType::F8E4M3 ? 3 : 2, bias = t == DType::F8E4M3 ? 7 : 15;
  int exponent = (code & 0x7f) >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
  double sign = code & 0x80 ? -1 : 1;
  if (t == DType::F8E4M3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c)
    return std::numeric_limits<double>::quiet_NaN();
  if (t == DType::F8E5M2 && (code & 0x7f) == 0x7c)
    return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits);
}

/// A number of e4m3 holds three bits below its leading one, of e5m2 two; the last of each is 448 and 57344.
TEST(DType, EveryFloat8AndEveryMidpoint) {
  for (DType t : {DType::F8E4M3, DType::F8E5M2}) {
    int last = t == DType::F8E4M3 ? 0x7e : 0x7b;
    EXPECT_EQ(valueOfFloat8(uint8_t(last), t), t == DType::F8E4M3 ? 448 : 57344);
    for (int code = 0; code < 256; ++code) {
      double value = valueOfFloat8(uint8_t(code), t);
      float widened = narrowToFloat(uint16_t(code), t);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(widened)) << code;
        EXPECT_TRUE(std::isnan(valueOfFloat8(uint8_t(doubleToNarrow(widened, t)), t))) << code;
        continue;
      }
      EXPECT_EQ(widened, value) << code;
      EXPECT_EQ(std::signbit(widened), code >= 0x80) << code;
      EXPECT_EQ(doubleToNarrow(value, t), code);
    }
    for (int i = 0; i < last; ++i) {
      double middle = (valueOfFloat8(uint8_t(i), t) + valueOfFloat8(uint8_t(i + 1), t)) / 2;
      EXPECT_EQ(doubleToNarrow(middle, t), i + (i & 1)) << i;
      EXPECT_EQ(doubleToNarrow(-middle, t), (i + (i & 1)) | 0x80) << i;
      EXPECT_EQ(doubleToNarrow(std::nextafter(middle, 0), t), i);
      EXPECT_EQ(doubleToNarrow(std::nextafter(middle, HUGE_VAL), t), i + 1);
    }
  }
}

TEST(DType, Float8Overflow) {
  // Half-way to the number that would come next: 464 goes to the even 448, what is above is NaN.
  EXPECT_EQ(doubleToNarrow(464, DType::F8E4M3), 0x7e);
  EXPECT_EQ(doubleToNarrow(std::nextafter(464, HUGE_VAL), DType::F8E4M3), 0x7f);
  EXPECT_EQ(doubleToNarrow(-465, DType::F8E4M3), 0xff);
  EXPECT_EQ(doubleToNarrow(1e300, DType::F8E4M3), 0x7f);
  EXPECT_EQ(doubleToNarrow(-HUGE_VAL, DType::F8E4M3), 0xff);
  // 61440 goes to the even one, which is infinity.
  EXPECT_EQ(doubleToNarrow(std::nextafter(61440, 0), DType::F8E5M2), 0x7b);
  EXPECT_EQ(doubleToNarrow(61440, DType::F8E5M2), 0x7c);
  EXPECT_EQ(doubleToNarrow(-1e300, DType::F8E5M2), 0xfc);
  EXPECT_EQ(doubleToNarrow(-HUGE_VAL, DType::F8E5M2), 0xfc);
  // The least number of either is 2^-9 and 2^-16; half of it goes to zero.
  EXPECT_EQ(doubleToNarrow(0x1p-10, DType::F8E4M3), 0);
  EXPECT_EQ(doubleToNarrow(0x1.8p-9, DType::F8E4M3), 2);
  EXPECT_EQ(doubleToNarrow(-0x1p-17, DType::F8E5M2), 0x80);
  EXPECT_EQ(doubleToNarrow(0x1.0000000000001p-17, DType::F8E5M2), 1);
  EXPECT_TRUE(fitsDType(464, DType::F8E4M3) && !fitsDType(465, DType::F8E4M3) && !fitsDType(HUGE_VAL, DType::F8E4M3));
  EXPECT_TRUE(fitsDType(HUGE_VAL, DType::F8E5M2) && fitsDType(NAN, DType::F8E4M3) && !fitsDType(61440, DType::F8E5M2));
}

TEST(DType, BfloatOfSpecialFloats) {
  auto isNaN = [](uint16_t bits) { return std::isnan(valueOf(bits, 7)); };
  EXPECT_TRUE(isNaN(floatToBfloat(fromBits(0x7f800001)))); // Cutting bits off gives infinity.
  EXPECT_TRUE(isNaN(floatToBfloat(fromBits(0x7fffffff)))); // Adding the rounding bias gives -0.
  EXPECT_TRUE(isNaN(floatToBfloat(fromBits(0xffffffff))));
  EXPECT_TRUE(isNaN(doubleToBfloat(std::bit_cast<double>(0x7ff0000000000001))));
  EXPECT_EQ(floatToBfloat(fromBits(0x7f7fffff)), 0x7f80);
  EXPECT_EQ(floatToBfloat(fromBits(0x3f808000)), 0x3f80);
  EXPECT_EQ(floatToBfloat(fromBits(0x3f818000)), 0x3f82);
  EXPECT_EQ(floatToBfloat(-0.0f), 0x8000);
  EXPECT_EQ(floatToBfloat(fromBits(0xff800000)), 0xff80);
  EXPECT_EQ(doubleToBfloat(1e300), 0x7f80);
  EXPECT_EQ(doubleToBfloat(-5e-324), 0x8000);
}

TEST(DType, HalfOfSpecialFloats) {
  EXPECT_EQ(floatToHalf(65519.988f), 0x7bff);
  EXPECT_EQ(floatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(floatToHalf(1e6f), 0x7c00);
  EXPECT_EQ(floatToHalf(-1e6f), 0xfc00);
  EXPECT_EQ(doubleToHalf(1e300), 0x7c00);
  EXPECT_TRUE(std::isnan(valueOf(floatToHalf(fromBits(0x7f800001)), 10)));
  EXPECT_EQ(floatToHalf(0x1p-24f), 0x0001);
  EXPECT_EQ(floatToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(floatToHalf(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(floatToHalf(-0.0f), 0x8000);
}

TEST(DType, DoublesRoundOnce) {
  // 1 + 2^-11 + 2^-40: f32 first would give the tie 1 + 2^-11 and then 1.
  EXPECT_EQ(doubleToHalf(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(doubleToBfloat(1 + 0x1p-8 + 0x1p-40), 0x3f81);
}

TEST(DType, RoundToDType) {
  // N-06: 3.1415927 -> bf16 is 3.140625, twice that 6.28125.
  EXPECT_EQ(roundToDType(3.1415927, DType::BF16) * 2, 6.28125);
  EXPECT_EQ(roundToDType(0.1, DType::F32), double(0.1f));
  EXPECT_EQ(roundToDType(0.1, DType::F64), 0.1);
  EXPECT_EQ(roundToDType(1e39, DType::F32), HUGE_VAL);
  EXPECT_EQ(roundToDType(2049, DType::F16), 2048);
}

/// Of a finite number by arithmetic: a multiple of the unit of 11 bits at it, which is 2^-136 below the least normal number.
double roundedTo11Bits(float value) {
  double unit = std::ldexp(1.0, std::max(value == 0 ? -126 : std::ilogb(value), -126) - 10);
  double rounded = std::nearbyint(value / unit) * unit;
  return std::fabs(rounded) < 0x1p128 ? rounded : std::copysign(HUGE_VAL, rounded);
}

TEST(DType, RoundToTf32) {
  // Every exponent and both signs, with mantissas around each kind of tie, and those in between.
  for (uint32_t head = 0; head < 0x200; ++head)
    for (uint32_t mantissa = 0; mantissa < 0x800000; mantissa += head % 0x40 == 0 ? 0x3ff : 0x6fff1)
      for (uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
        float value = fromBits(head << 23 | (mantissa & ~0x1fffu) | low), rounded = roundToTf32(value);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(rounded)) << std::hex << std::bit_cast<uint32_t>(value);
          continue;
        }
        double want = std::isinf(value) ? value : roundedTo11Bits(value);
        ASSERT_EQ(rounded, want) << std::hex << std::bit_cast<uint32_t>(value);
        ASSERT_EQ(std::signbit(rounded), std::signbit(value));
      }
}

TEST(DType, Tf32OfSpecialFloats) {
  EXPECT_EQ(roundToTf32(1 + 0x1p-11f), 1);           // A tie goes to the even neighbour ...
  EXPECT_EQ(roundToTf32(1 + 0x3p-11f), 1 + 0x1p-9f); // ... which may be above.
  EXPECT_EQ(roundToTf32(fromBits(0x7f7fffff)), HUGE_VALF);
  EXPECT_EQ(roundToTf32(fromBits(0x7f7fefff)), fromBits(0x7f7fe000)); // Below half-way to 2^128.
  EXPECT_EQ(roundToTf32(fromBits(0xff7ff000)), -HUGE_VALF);
  EXPECT_EQ(roundToTf32(0x1p-149f), 0);
  EXPECT_EQ(roundToTf32(0x1p-136f), 0x1p-136f);
  EXPECT_EQ(roundToTf32(fromBits(0x007ff000)), 0x1p-126f); // From the denormal numbers to the least normal one.
  EXPECT_TRUE(std::signbit(roundToTf32(-0.0f)));
  // Ties away from 0, else the same.
  EXPECT_EQ(roundToTf32Away(1 + 0x1p-11f), 1 + 0x1p-10f);
  EXPECT_EQ(roundToTf32Away(-1 - 0x1p-11f), -1 - 0x1p-10f);
  EXPECT_EQ(roundToTf32Away(1 + 0x3p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(roundToTf32Away(1 + 0x1p-11f - 0x1p-23f), 1);
  EXPECT_EQ(roundToTf32Away(fromBits(0x7f7ff000)), HUGE_VALF);
  EXPECT_EQ(roundToTf32Away(-HUGE_VALF), -HUGE_VALF);
  EXPECT_TRUE(std::isnan(roundToTf32Away(fromBits(0x7fffffff))));
  // Tensor cores do not see the lower bits: a NaN that has no others must get one.
  for (uint32_t bits : {0x7f800001u, 0xff801fffu, 0x7fffffffu, 0xffc00000u}) {
    uint32_t seen = std::bit_cast<uint32_t>(roundToTf32(fromBits(bits))) & ~0x1fffu;
    EXPECT_TRUE(std::isnan(fromBits(seen))) << std::hex << bits;
  }
}

} // namespace
