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

DType computeDType(DType t) {
  switch (t) {
  case DType::F16:
  case DType::BF16:
  case DType::F8E4M3:
  case DType::F8E5M2:
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

namespace {

/// A narrow float: sign, exponent, mantissa. Without infinities the codes with the greatest exponent are numbers too, but the last.
template <int exponentWidth, int mantissaWidth, bool hasInfinity = true> struct NarrowFloat {
  static constexpr int bias = (1 << (exponentWidth - 1)) - 1, maxExponent = (1 << exponentWidth) - 1;
  static constexpr uint32_t topCode = uint32_t(maxExponent) << mantissaWidth; ///< The first with the greatest exponent.
  static constexpr uint32_t mantissaMask = (1u << mantissaWidth) - 1, signBit = 1u << (exponentWidth + mantissaWidth);
  static constexpr uint32_t nan = topCode | (hasInfinity ? 1u << (mantissaWidth - 1) : mantissaMask);
  static constexpr uint32_t overflow = hasInfinity ? topCode : nan;

  /// NaNs are made quiet on the way, as the hardware's conversions do.
  static float widen(uint32_t bits) {
    uint32_t sign = bits & signBit ? 0x80000000u : 0u, magnitude = bits & (signBit - 1), mantissa = bits & mantissaMask;
    if (hasInfinity ? magnitude >= topCode : magnitude == nan)
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude > topCode ? 0x400000u : 0u) | mantissa << (23 - mantissaWidth));
    if (magnitude <= mantissaMask) // Zero or denormal: a multiple of the least, exact in f32.
      return std::copysign(std::ldexp(float(mantissa), 1 - bias - mantissaWidth), std::bit_cast<float>(sign | 0x3f800000u));
    return std::bit_cast<float>(sign | ((magnitude << (23 - mantissaWidth)) + (uint32_t(127 - bias) << 23)));
  }

  /// Rounds in integers, so that the caller's rounding mode does not matter.
  static uint16_t narrow(double value) {
    uint64_t bits = std::bit_cast<uint64_t>(value), mantissa = bits & ((uint64_t(1) << 52) - 1);
    uint32_t sign = bits >> 63 ? signBit : 0;
    int exponent = int(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff)
      return uint16_t(sign | (mantissa ? nan : overflow));
    int narrowed = exponent - 1023 + bias, shift = 52 - mantissaWidth;
    if (narrowed > maxExponent - int(hasInfinity))
      return uint16_t(sign | overflow);
    uint64_t kept = uint64_t(narrowed) << 52 | mantissa;
    if (narrowed <= 0) { // A denormal: the leading one becomes a bit like the others.
      shift += 1 - narrowed;
      if (shift > 53)
        return uint16_t(sign); // Less than half of the least denormal.
      kept = uint64_t(1) << 52 | mantissa;
    }
    // Ties to even. A carry out of the mantissa raises the exponent, at the top to what overflow gives.
    uint64_t half = (uint64_t(1) << (shift - 1)) - 1 + (kept >> shift & 1);
    return uint16_t(sign | std::min(uint32_t((kept + half) >> shift), overflow));
  }
};

using Half = NarrowFloat<5, 10>;
using Bfloat = NarrowFloat<8, 7>;
using Float8E4M3 = NarrowFloat<4, 3, false>;
using Float8E5M2 = NarrowFloat<5, 2>;

} // namespace

float halfToFloat(uint16_t bits) { return Half::widen(bits); }

float bfloatToFloat(uint16_t bits) {
  bool isNaN = (bits & 0x7fff) > 0x7f80;
  return std::bit_cast<float>(uint32_t(bits) << 16 | (isNaN ? 0x400000u : 0u));
}

uint16_t doubleToHalf(double value) { return Half::narrow(value); }
uint16_t doubleToBfloat(double value) { return Bfloat::narrow(value); }
// Widening to f64 is exact, so these round once.
uint16_t floatToHalf(float value) { return Half::narrow(value); }

uint16_t floatToBfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) // Rounding bits could make a NaN infinite or zero.
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float narrowToFloat(uint16_t bits, DType t) {
  switch (t) {
  case DType::F16:
    return halfToFloat(bits);
  case DType::BF16:
    return bfloatToFloat(bits);
  case DType::F8E4M3:
    return Float8E4M3::widen(bits);
  default:
    return Float8E5M2::widen(bits);
  }
}

uint16_t doubleToNarrow(double value, DType t) {
  switch (t) {
  case DType::F16:
    return Half::narrow(value);
  case DType::BF16:
    return Bfloat::narrow(value);
  case DType::F8E4M3:
    return Float8E4M3::narrow(value);
  default:
    return Float8E5M2::narrow(value);
  }
}

/// `half`: what is added, with the sign apart, to the bits that are cut.
static float cutToTf32(float value, uint32_t half) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000) == 0x7f800000) // A NaN whose payload is in the lower bits alone stays one.
    return std::isnan(value) ? std::bit_cast<float>(bits | 0x400000) : value;
  return std::bit_cast<float>((bits + half) & ~uint32_t(0x1fff));
}

float roundToTf32(float value) { return cutToTf32(value, 0xfff + (std::bit_cast<uint32_t>(value) >> 13 & 1)); }

float roundToTf32Away(float value) { return cutToTf32(value, 0x1000); }

double roundToDType(double value, DType t) {
  if (t == DType::F32)
    return double(float(value));
  return isNarrowFloat(t) ? narrowToFloat(doubleToNarrow(value, t), t) : value;
}

bool fitsDType(double value, DType t) {
  double rounded = roundToDType(value, t);
  return std::isnan(value) || (std::isinf(value) ? std::isinf(rounded) : std::isfinite(rounded));
}

} // namespace minic
