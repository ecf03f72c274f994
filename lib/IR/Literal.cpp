#include "Literal.h"

#include "Lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace minic {

static bool isHex(std::string_view text) { return text.starts_with("0x") || text.starts_with("0X"); }

std::optional<int64_t> parseIntLiteral(std::string_view text) {
  bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative);
  int base = isHex(digits) ? 16 : 10;
  if (base == 16)
    digits.remove_prefix(2);
  uint64_t magnitude = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  uint64_t limit = uint64_t(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (magnitude > limit)
    return std::nullopt;
  return int64_t(negative ? 0 - magnitude : magnitude);
}

namespace {

/// |literal| = 0.d1d2d3... * 10^exponent with d1 and the last digit nonzero; no digits for zero.
struct Decimal {
  std::string digits;
  int64_t exponent = 0;
};

/// A double, and on which side of it the literal lies.
struct Nearest {
  double value = 0;
  int rest = 0; ///< Sign of |literal| - |value|; asked only where `value` is half-way between two elements.
};

} // namespace

static Decimal decimalOf(std::string_view text) {
  Decimal result;
  int64_t pointAt = -1, seen = 0;
  size_t i = text.starts_with('-') ? 1 : 0;
  for (; i < text.size() && (text[i] | 32) != 'e'; ++i) {
    if (text[i] == '.') {
      pointAt = seen;
      continue;
    }
    ++seen;
    if (text[i] != '0' || !result.digits.empty())
      result.digits.push_back(text[i]);
  }
  if (pointAt < 0)
    pointAt = seen;
  int64_t written = 0;
  if (i < text.size()) {
    bool negative = text[++i] == '-';
    if (negative || text[i] == '+')
      ++i;
    for (; i < text.size(); ++i)
      written = std::min<int64_t>(written * 10 + (text[i] - '0'), int64_t(1) << 40); // Saturates: far beyond every exponent.
    if (negative)
      written = -written;
  }
  result.exponent = pointAt - (seen - int64_t(result.digits.size())) + written;
  while (!result.digits.empty() && result.digits.back() == '0')
    result.digits.pop_back();
  return result;
}

static int compareMagnitude(std::string_view literal, double value) {
  char buffer[1200]; // A double has at most 767 significant digits.
  auto end = std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific, 770).ptr;
  Decimal a = decimalOf(literal), b = decimalOf({buffer, size_t(end - buffer)});
  if (a.digits.empty() || b.digits.empty())
    return int(!a.digits.empty()) - int(!b.digits.empty());
  if (a.exponent != b.exponent)
    return a.exponent < b.exponent ? -1 : 1;
  int order = a.digits.compare(b.digits);
  return (order > 0) - (order < 0);
}

static std::optional<double> nearestDecimal(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    // Too large and too small give the same answer, so look at the literal.
    Decimal decimal = decimalOf(text);
    if (!decimal.digits.empty() && decimal.exponent > 0)
      return std::nullopt;
    return text.starts_with('-') ? -0.0 : 0.0;
  }
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// `0x1.8p3`, through a long double, whose 64 bits hold 16 hexadecimal digits exactly. More digits only say on which side of those
/// the literal lies.
static std::optional<Nearest> nearestHex(std::string_view text) {
  bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 3 : 2);
  uint64_t mantissa = 0;
  int64_t exponent = 0;
  bool point = false, sticky = false;
  size_t i = 0;
  for (; i < text.size() && (text[i] | 32) != 'p'; ++i) {
    if (text[i] == '.') {
      point = true;
      continue;
    }
    unsigned digit = isDigit(text[i]) ? unsigned(text[i] - '0') : unsigned((text[i] | 32) - 'a' + 10);
    if (mantissa >> 60) {
      sticky |= digit != 0;
      exponent += point ? 0 : 4;
    } else {
      mantissa = mantissa << 4 | digit;
      exponent -= point ? 4 : 0;
    }
  }
  if (i < text.size()) {
    Decimal written = decimalOf("1e" + std::string(text.substr(i + 1)));
    exponent += written.exponent - 1;
  }
  mantissa |= sticky; // Odd: a tail below the last digit cannot make the value a tie.
  long double exact = std::ldexp((long double)mantissa, int(std::clamp<int64_t>(exponent, -20000, 20000)));
  double value = double(exact);
  if (std::isinf(value))
    return std::nullopt;
  int rest = (exact > (long double)value) - (exact < (long double)value);
  return Nearest{negative ? -value : value, rest};
}

std::optional<double> parseFloatLiteral(std::string_view text, DType t) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (text == "inf" || text == "-inf")
    return fitsDType(inf, t) ? std::optional(text == "inf" ? inf : -inf) : std::nullopt;
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  bool hex = isHex(text.starts_with('-') ? text.substr(1) : text);
  Nearest nearest;
  if (hex) {
    auto found = nearestHex(text);
    if (!found)
      return std::nullopt;
    nearest = *found;
  } else {
    auto found = nearestDecimal(text);
    if (!found)
      return std::nullopt;
    nearest.value = *found;
  }
  double value = nearest.value;
  double rounded = roundToDType(value, t);
  if (t != DType::F64) {
    // Rounding the double again is wrong only if it lies half-way between two elements and the literal does not. Then the literal's
    // side decides. The largest element of types with infinities is odd, so a tie with infinity rounds to that; f8e4m3's is even.
    double toZero = roundToDType(std::nextafter(value, 0.0), t);
    double away = roundToDType(std::nextafter(value, value < 0 ? -inf : inf), t);
    bool tie = std::isinf(rounded) ? !std::isinf(toZero)
               : std::isnan(away)  ? !std::isnan(rounded)
                                   : toZero != away && toZero + (away - toZero) / 2 == value;
    if (tie) {
      int rest = hex ? nearest.rest : compareMagnitude(text, value);
      if (rest)
        rounded = rest < 0 ? toZero : away;
    }
  }
  return std::isfinite(rounded) ? std::optional(rounded) : std::nullopt;
}

} // namespace minic
