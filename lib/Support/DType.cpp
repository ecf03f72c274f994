#include "minic/Support/DType.h"

#include <algorithm>
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

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) // Zero or denormal: mantissa * 2^-24, exact in f32.
    return std::copysign(float(mantissa) * 0x1p-24f, std::bit_cast<float>(sign | 0x3f800000u));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Rounds a finite double to `precision` significant bits, with the least exponent `minExponent` of a denormal's last bit.
static double roundTo(double value, int precision, int minExponent) {
  int exponent;
  std::frexp(value, &exponent);
  int lastBit = std::max(exponent - precision, minExponent);
  // Scaling by a power of two is exact; nearbyint rounds ties to even in the default mode.
  return std::ldexp(std::nearbyint(std::ldexp(value, -lastBit)), lastBit);
}

uint16_t doubleToHalf(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  double magnitude = std::isinf(value) ? value : roundTo(std::fabs(value), 11, -24);
  magnitude = std::fabs(magnitude);
  if (magnitude > 65504)
    return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return uint16_t(sign | uint16_t(magnitude * 0x1p24));
  int exponent;
  double fraction = std::frexp(magnitude, &exponent); // [0.5, 1)
  return uint16_t(sign | (exponent + 14) << 10 | (uint16_t(fraction * 2048) & 0x3ff));
}

uint16_t doubleToBfloat(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7fc0;
  double magnitude = std::isinf(value) ? value : roundTo(std::fabs(value), 8, -133);
  // The rounded value is a float unless it overflowed.
  if (std::fabs(magnitude) >= 0x1p128)
    return sign | 0x7f80;
  return uint16_t(sign | std::bit_cast<uint32_t>(float(std::fabs(magnitude))) >> 16);
}

uint16_t floatToHalf(float value) { return doubleToHalf(value); }

uint16_t floatToBfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
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
