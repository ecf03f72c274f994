#include "ElementText.h"

#include "minic/Support/HostTensor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace minic {

//===- Writing -===//

namespace {

/// `d.ddde[+-]xx` as to_chars gives it, taken apart.
struct Digits {
  bool negative = false;
  std::string digits;
  int exponent = 0; ///< Of the first digit.
};

Digits shortestDigits(double value, DType t) {
  std::array<char, 64> buffer;
  char *begin = buffer.data(), *limit = begin + buffer.size(), *end = begin;
  constexpr auto scientific = std::chars_format::scientific;
  if (isNarrowFloat(t) && !isStorageOnly(t)) {
    // to_chars knows no 16-bit floats: the fewest digits that round back to the same value.
    for (int decimals = 0; decimals <= 8; ++decimals) {
      end = std::to_chars(begin, limit, value, scientific, decimals).ptr;
      double back = 0;
      std::from_chars(begin, end, back);
      if (roundToDType(back, t) == roundToDType(value, t))
        break;
    }
  } else if (t != DType::F64) { // As f32, 448 does not become 450, which reads back as it in f8e4m3.
    end = std::to_chars(begin, limit, float(value), scientific).ptr;
  } else {
    end = std::to_chars(begin, limit, value, scientific).ptr;
  }
  Digits result;
  const char *exponentAt = std::find(begin, end, 'e');
  for (const char *c = begin; c != exponentAt; ++c)
    if (*c == '-')
      result.negative = true;
    else if (*c != '.')
      result.digits += *c;
  const char *number = exponentAt + (exponentAt + 1 < end && exponentAt[1] == '+' ? 2 : 1);
  std::from_chars(number, end, result.exponent);
  return result;
}

} // namespace

std::string floatText(double value, DType t) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  auto [negative, digits, exponent] = shortestDigits(value, t);
  std::string text = negative ? "-" : "";
  // Positional where Python's repr is.
  if (exponent < -4 || exponent >= 16) {
    text += digits.substr(0, 1);
    if (digits.size() > 1)
      text += "." + digits.substr(1);
    std::string power = std::to_string(std::abs(exponent));
    return text + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return text + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  size_t whole = size_t(exponent) + 1;
  if (digits.size() <= whole)
    return text + digits + std::string(whole - digits.size(), '0') + ".0";
  return text + digits.substr(0, whole) + "." + digits.substr(whole);
}

//===- Reading -===//

/// Whether a decimal literal that from_chars found out of range is too small, not too large.
static bool isTiny(std::string_view literal) {
  // The power of ten of its first digit that is not zero.
  int64_t power = 0, written = 0;
  bool point = false, seen = false;
  size_t i = 0;
  for (; i < literal.size() && literal[i] != 'e' && literal[i] != 'E'; ++i) {
    if (literal[i] == '.') {
      point = true;
    } else if (literal[i] >= '0' && literal[i] <= '9') {
      seen |= literal[i] != '0';
      power += seen && !point ? 1 : !seen && point ? -1 : 0;
    }
  }
  bool negative = i + 1 < literal.size() && literal[i + 1] == '-';
  for (++i; i < literal.size(); ++i)
    if (literal[i] >= '0' && literal[i] <= '9')
      written = std::min<int64_t>(written * 10 + (literal[i] - '0'), int64_t(1) << 40);
  return power + (negative ? -written : written) <= 0;
}

/// The nearest value of F; nullptr or what is wrong.
template <typename F> static const char *readFloat(std::string_view word, F &value) {
  bool negative = word.starts_with('-');
  std::string_view rest = word.substr(negative);
  auto format = std::chars_format::general;
  if (rest.starts_with("0x") || rest.starts_with("0X")) {
    rest.remove_prefix(2);
    format = std::chars_format::hex;
  }
  // from_chars takes a sign of its own, and payloads.
  if (rest.empty() || rest.starts_with('-') || rest.ends_with(')'))
    return "is not a number";
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, format);
  if (error == std::errc::result_out_of_range) {
    if (format == std::chars_format::hex)
      return "is out of range";
    if (!isTiny(rest))
      return "is too large";
    value = 0;
  } else if (error != std::errc() || end != rest.data() + rest.size()) {
    return "is not a number";
  }
  value = negative ? -value : value;
  return nullptr;
}

static const char *readInteger(std::string_view word, int64_t least, int64_t greatest, int64_t &value) {
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size())
    return value < least || value > greatest ? "is out of range" : nullptr;
  // `1e3` and `2.0` are integers too.
  double number = 0;
  if (const char *why = readFloat(word, number))
    return why;
  if (!(number >= double(least) && number <= double(greatest)) || std::fabs(number) >= 0x1p53)
    return "is out of range";
  value = int64_t(number);
  return double(value) == number ? nullptr : "is not an integer";
}

const char *readElement(std::string_view word, DType t, std::byte *to) {
  auto store = [&](auto element) {
    std::memcpy(to, &element, sizeof element);
    return nullptr;
  };
  if (word.starts_with('+') && word.size() > 1 && word[1] != '-')
    word.remove_prefix(1);
  if (word == "true" || word == "false")
    word = word == "true" ? "1" : "0";
  if (t == DType::F32) { // Directly: through f64 it would round twice.
    float value = 0;
    const char *why = readFloat(word, value);
    return why ? why : store(value);
  }
  if (isFloat(t)) {
    double value = 0;
    if (const char *why = readFloat(word, value))
      return why;
    if (!fitsDType(value, t))
      return "is too large";
    if (t == DType::F64)
      return store(value);
    return dtypeBytes(t) == 1 ? store(uint8_t(doubleToNarrow(value, t))) : store(doubleToNarrow(value, t));
  }
  int64_t value = 0;
  auto [least, greatest] = integerRange(t);
  if (const char *why = readInteger(word, least, greatest, value))
    return why;
  std::memcpy(to, &value, size_t(dtypeBytes(t))); // Little-endian: the low bytes.
  return nullptr;
}

} // namespace minic
