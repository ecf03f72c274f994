#include "OracleMath.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

namespace minic::interp {

namespace {

/// Lanes as numbers; a splat repeats its one element.
template <typename T> struct Reader {
  explicit Reader(const Lanes &lanes) : data(reinterpret_cast<const T *>(lanes.data)), step(lanes.splat ? 0 : 1) {}
  T operator[](int64_t i) const { return data[i * step]; }
  const T *data;
  int64_t step;
};

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
/// x p, where p falls to 0 faster than x grows.
double timesProbability(double x, double p) { return p == 0 ? -0.0 : x * p; }

bool compareF64(std::string_view predicate, double a, double b) {
  if (predicate == "eq")
    return a == b;
  if (predicate == "ne")
    return a != b;
  if (predicate == "lt")
    return a < b;
  if (predicate == "le")
    return a <= b;
  if (predicate == "gt")
    return a > b;
  return a >= b;
}

template <typename T> T saturated(double value) {
  if (std::isnan(value))
    return 0;
  double truncated = std::trunc(value), limit = std::ldexp(1.0, std::numeric_limits<T>::digits); // 2^31 and the like, exact in f64.
  if (truncated >= limit)
    return std::numeric_limits<T>::max();
  return truncated < double(std::numeric_limits<T>::min()) ? std::numeric_limits<T>::min() : T(truncated);
}

/// Conversions from or to a float; false for those between integers.
bool convertF64(DType from, DType to, const Lanes &operand, std::byte *out, int64_t count) {
  auto fill = [&]<typename T, typename Source>(Source source, auto fn) {
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<T *>(out)[i] = fn(source[i]);
    return true;
  };
  if (isFloat(from)) {
    Reader<double> source(operand);
    if (isFloat(to))
      return fill.template operator()<double>(source, [&](double v) { return roundToDType(v, to); });
    if (to == DType::I1)
      return fill.template operator()<uint8_t>(source, [](double v) { return uint8_t(v != 0); });
    if (to == DType::I8)
      return fill.template operator()<int8_t>(source, [](double v) { return saturated<int8_t>(v); });
    if (to == DType::U8)
      return fill.template operator()<uint8_t>(source, [](double v) { return saturated<uint8_t>(v); });
    if (to == DType::I32)
      return fill.template operator()<int32_t>(source, [](double v) { return saturated<int32_t>(v); });
    return fill.template operator()<int64_t>(source, [](double v) { return saturated<int64_t>(v); });
  }
  if (!isFloat(to))
    return false;
  auto rounded = [&](auto v) { return roundToDType(double(v), to); };
  if (from == DType::I8)
    return fill.template operator()<double>(Reader<int8_t>(operand), rounded);
  if (from == DType::I1 || from == DType::U8)
    return fill.template operator()<double>(Reader<uint8_t>(operand), rounded);
  if (from == DType::I32)
    return fill.template operator()<double>(Reader<int32_t>(operand), rounded);
  return fill.template operator()<double>(Reader<int64_t>(operand), rounded);
}

/// False if the op is not written here.
bool arithmetic(OpKind kind, std::span<const Lanes> operands, double *out, int64_t count) {
  Reader<double> a(operands[0]), b(operands[operands.size() > 1 ? 1 : 0]), c(operands.back());
  auto fill = [&](auto fn) {
    for (int64_t i = 0; i < count; ++i)
      if constexpr (std::is_invocable_v<decltype(fn), double>)
        out[i] = fn(a[i]);
      else if constexpr (std::is_invocable_v<decltype(fn), double, double>)
        out[i] = fn(a[i], b[i]);
      else
        out[i] = fn(a[i], b[i], c[i]);
    return true;
  };
  switch (kind) {
  case OpKind::Add:
    return fill([](double x, double y) { return x + y; });
  case OpKind::Sub:
    return fill([](double x, double y) { return x - y; });
  case OpKind::Mul:
    return fill([](double x, double y) { return x * y; });
  case OpKind::Div:
    return fill([](double x, double y) { return x / y; });
  case OpKind::Max:
    return fill(maximum);
  case OpKind::Min:
    return fill(minimum);
  case OpKind::Neg:
    return fill([](double x) { return -x; });
  case OpKind::Abs:
    return fill([](double x) { return std::copysign(x, 1.0); });
  case OpKind::Sign:
    return fill([](double x) { return x == 0 || std::isnan(x) ? x : std::copysign(1.0, x); });
  case OpKind::Floor:
    return fill([](double x) { return std::floor(x); });
  case OpKind::Ceil:
    return fill([](double x) { return std::ceil(x); });
  case OpKind::Round:
    return fill([](double x) { return std::isinf(x) ? x : std::copysign(x - std::remainder(x, 1.0), x); });
  case OpKind::Clamp:
    return fill([](double x, double low, double high) { return minimum(maximum(x, low), high); });
  case OpKind::Sqrt:
    return fill([](double x) { return std::sqrt(x); });
  case OpKind::Relu:
    return fill([](double x) { return maximum(x, 0.0); });
  case OpKind::Exp:
    return fill([](double x) { return std::exp(x); });
  case OpKind::Log:
    return fill([](double x) { return std::log(x); });
  case OpKind::Exp2:
    return fill([](double x) { return std::exp2(x); });
  case OpKind::Expm1:
    return fill([](double x) { return std::expm1(x); });
  case OpKind::Log2:
    return fill([](double x) { return std::log2(x); });
  case OpKind::Log1p:
    return fill([](double x) { return std::log1p(x); });
  case OpKind::Tanh:
    return fill([](double x) { return std::tanh(x); });
  case OpKind::Sigmoid:
    return fill(sigmoid);
  case OpKind::Silu:
    return fill([](double x) { return timesProbability(x, sigmoid(x)); });
  case OpKind::Erf:
    return fill([](double x) { return std::erf(x); });
  case OpKind::Gelu:
    return fill([](double x) { return timesProbability(x, std::erfc(-x / std::numbers::sqrt2) / 2); });
  case OpKind::GeluTanh:
    return fill(
        [](double x) { return timesProbability(x, sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); });
  case OpKind::Sin:
    return fill([](double x) { return std::sin(x); });
  case OpKind::Cos:
    return fill([](double x) { return std::cos(x); });
  case OpKind::Pow:
    return fill([](double x, double y) { return std::pow(x, y); });
  case OpKind::Rsqrt:
    return fill([](double x) { return 1.0 / std::sqrt(x); });
  default:
    return false;
  }
}

} // namespace

void evalInF64(OpKind kind, std::string_view predicate, DType from, DType to, std::span<const Lanes> operands, std::byte *out,
               int64_t count) {
  if (kind == OpKind::Convert) {
    if (convertF64(from, to, operands[0], out, count))
      return;
  } else if (kind == OpKind::Compare && isFloat(from)) {
    Reader<double> a(operands[0]), b(operands[1]);
    for (int64_t i = 0; i < count; ++i)
      out[i] = std::byte(compareF64(predicate, a[i], b[i]));
    return;
  } else if (isFloat(from) && isFloat(to) && arithmetic(kind, operands, reinterpret_cast<double *>(out), count)) {
    return;
  }
  evalElementwise(kind, predicate, operands, oracleDType(to), out, count);
}

} // namespace minic::interp
