#include "minic/Support/HostTensor.h"

#include <cassert>
#include <cmath>
#include <limits>

namespace minic {

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape) : elementType(dtype), dims(std::move(shape)) {
  auto bytes = checkedBytes(dtype, dims);
  assert(bytes && "the size of a tensor must be checked before it is made");
  count = *bytes / dtypeBytes(dtype);
  data.resize(size_t(*bytes));
}

std::optional<int64_t> HostTensor::checkedBytes(DType dtype, std::span<const int64_t> shape) {
  // The sizes other than zero must fit too: strides are products of them.
  int64_t bytes = dtypeBytes(dtype);
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    empty |= dim == 0;
    if (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes))
      return std::nullopt;
  }
  return empty ? 0 : bytes;
}

double HostTensor::get(int64_t i) const {
  switch (elementType) {
  case DType::F64:
    return as<double>()[i];
  case DType::F32:
    return as<float>()[i];
  case DType::F16:
    return halfToFloat(as<uint16_t>()[i]);
  case DType::BF16:
    return bfloatToFloat(as<uint16_t>()[i]);
  case DType::F8E4M3:
  case DType::F8E5M2:
    return narrowToFloat(as<uint8_t>()[i], elementType);
  case DType::I64:
  case DType::Index:
    return double(as<int64_t>()[i]);
  case DType::I32:
    return as<int32_t>()[i];
  case DType::I8:
    return as<int8_t>()[i];
  case DType::U8:
    return as<uint8_t>()[i];
  case DType::I1:
    return as<uint8_t>()[i] != 0;
  }
  return 0;
}

/// Towards zero, NaN to 0, out of range to the nearest end: what a conversion to this integer type gives.
template <typename Int> static Int toInteger(double value) {
  using Limits = std::numeric_limits<Int>;
  if (std::isnan(value))
    return 0;
  if (value <= double(Limits::min()))
    return Limits::min();
  // One more than the greatest is a power of two, which is exact.
  return value >= std::ldexp(1.0, Limits::digits) ? Limits::max() : Int(value);
}

void HostTensor::set(int64_t i, double value) {
  switch (elementType) {
  case DType::F64:
    as<double>()[i] = value;
    break;
  case DType::F32:
    as<float>()[i] = float(value);
    break;
  case DType::F16:
    as<uint16_t>()[i] = doubleToHalf(value);
    break;
  case DType::BF16:
    as<uint16_t>()[i] = doubleToBfloat(value);
    break;
  case DType::F8E4M3:
  case DType::F8E5M2:
    as<uint8_t>()[i] = uint8_t(doubleToNarrow(value, elementType));
    break;
  case DType::I64:
  case DType::Index:
    as<int64_t>()[i] = toInteger<int64_t>(value);
    break;
  case DType::I32:
    as<int32_t>()[i] = toInteger<int32_t>(value);
    break;
  case DType::I8:
    as<int8_t>()[i] = toInteger<int8_t>(value);
    break;
  case DType::U8:
    as<uint8_t>()[i] = toInteger<uint8_t>(value);
    break;
  case DType::I1:
    as<uint8_t>()[i] = value != 0;
    break;
  }
}

std::string shapeString(DType dtype, std::span<const int64_t> shape) {
  std::string text;
  for (int64_t dim : shape)
    text += std::to_string(dim) + "x";
  return text + std::string(dtypeName(dtype));
}

static uint64_t splitmix64(uint64_t z) {
  // Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

void fillRandom(HostTensor &tensor, uint64_t seed) {
  for (int64_t i = 0; i < tensor.numElements(); ++i) {
    uint64_t bits = splitmix64(seed + uint64_t(i + 1) * 0x9E3779B97F4A7C15ull);
    switch (dtypeClass(tensor.dtype())) {
    case DTypeClass::Float:
      tensor.set(i, double(bits >> 11) * 0x1p-52 - 1.0);
      break;
    case DTypeClass::Bool:
      tensor.set(i, double(bits >> 63));
      break;
    default:
      tensor.set(i, double(int64_t((bits >> 33) % 201) - 100));
    }
  }
}

void fillIota(HostTensor &tensor) {
  for (int64_t i = 0; i < tensor.numElements(); ++i)
    tensor.set(i, double(i));
}

} // namespace minic
