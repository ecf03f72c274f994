#include "minic/Support/DType.h"

#include <array>
#include <bit>
#include <cmath>

namespace minic {

namespace {
struct Row {
  std::string_view name;
  int64_t bytes;
  DTypeClass cls;
};
constexpr std::array rows = {
#define MINIC_DTYPE(id, spelling, bits, cls) Row{spelling, bits / 8, DTypeClass::cls},
#include "minic/Support/DTypes.def"
#undef MINIC_DTYPE
};
} // namespace

std::string_view dtypeName(DType t) { return rows[size_t(t)].name; }
int64_t dtypeBytes(DType t) { return rows[size_t(t)].bytes; }
DTypeClass dtypeClass(DType t) { return rows[size_t(t)].cls; }

DType computeDType(DType t) {
  switch (t) {
  case DType::F16:
  case DType::BF16:
    return DType::F32;
  case DType::I8:
  case DType::U8:
    return DType::I32;
  default:
    return t;
  }
}

IntegerRange integerRange(DType t) {
  switch (dtypeClass(t)) {
  case DTypeClass::Bool:
    return {0, 1};
  case DTypeClass::UInt:
    return {0, (int64_t(1) << (8 * dtypeBytes(t))) - 1};
  default:
    int64_t greatest = int64_t(~uint64_t(0) >> (65 - 8 * dtypeBytes(t)));
    return {-greatest - 1, greatest};
  }
}

std::optional<DType> parseDType(std::string_view name) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name)
      return DType(i);
  return std::nullopt;
}

std::string DTypeSet::str() const {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i)
    if (contains(DType(i)))
      text += (text.empty() ? "" : ", ") + std::string(rows[i].name);
  return text;
}

// NaNs are made quiet on the way, as the hardware's conversions do.
float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa ? 0x400000u : 0u) | mantissa << 13);
  if (exponent == 0) // Zero or denormal: mantissa * 2^-24, exact in f32.
    return std::copysign(float(mantissa) * 0x1p-24f, std::bit_cast<float>(sign | 0x3f800000u));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

float bfloatToFloat(uint16_t bits) {
  bool isNaN = (bits & 0x7fff) > 0x7f80;
  return std::bit_cast<float>(uint32_t(bits) << 16 | (isNaN ? 0x400000u : 0u));
}

/// Rounds to a 16-bit float with `mantissaBits`, in integers, so that the caller's rounding mode does not matter.
template <int mantissaBits> static uint16_t narrow(double value) {
  constexpr int exponentBits = 15 - mantissaBits, bias = (1 << (exponentBits - 1)) - 1;
  constexpr uint64_t infinity = ((uint64_t(1) << exponentBits) - 1) << mantissaBits;
  uint64_t bits = std::bit_cast<uint64_t>(value), mantissa = bits & ((uint64_t(1) << 52) - 1);
  uint16_t sign = bits >> 63 ? 0x8000 : 0;
  int exponent = int(bits >> 52 & 0x7ff);
  if (exponent == 0x7ff)
    return uint16_t(sign | infinity | (mantissa ? uint64_t(1) << (mantissaBits - 1) : 0));
  int narrowed = exponent - 1023 + bias, shift = 52 - mantissaBits;
  if (narrowed >= (1 << exponentBits) - 1)
    return uint16_t(sign | infinity);
  uint64_t kept = uint64_t(narrowed) << 52 | mantissa;
  if (narrowed <= 0) { // A denormal: the leading one becomes a bit like the others.
    shift += 1 - narrowed;
    if (shift > 53)
      return sign; // Less than half of the least denormal.
    kept = uint64_t(1) << 52 | mantissa;
  }
  // Ties to even. A carry out of the mantissa raises the exponent, at the top to infinity.
  uint64_t half = (uint64_t(1) << (shift - 1)) - 1 + (kept >> shift & 1);
  return uint16_t(sign | (kept + half) >> shift);
}

uint16_t doubleToHalf(double value) { return narrow<10>(value); }
uint16_t doubleToBfloat(double value) { return narrow<7>(value); }
// Widening to f64 is exact, so these round once.
uint16_t floatToHalf(float value) { return narrow<10>(value); }

uint16_t floatToBfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) // Rounding bits could make a NaN infinite or zero.
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double roundToDType(double value, DType t) {
  switch (t) {
  case DType::F32:
    return double(float(value));
  case DType::F16:
    return halfToFloat(doubleToHalf(value));
  case DType::BF16:
    return bfloatToFloat(doubleToBfloat(value));
  default:
    return value;
  }
}

} // namespace minic
