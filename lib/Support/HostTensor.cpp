#include "minic/Support/HostTensor.h"

#include <bit>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>

namespace minic {

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape) : elementType(dtype), dims(std::move(shape)) {
  auto bytes = checkedBytes(dtype, dims);
  assert(bytes && "the size of a tensor must be checked before it is made");
  count = *bytes / dtypeBytes(dtype);
  data.resize(size_t(*bytes));
}

std::optional<int64_t> HostTensor::checkedBytes(DType dtype, std::span<const int64_t> shape) {
  int64_t bytes = dtypeBytes(dtype);
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    empty |= dim == 0;
  }
  if (empty)
    return 0;
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes))
      return std::nullopt;
  return bytes;
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
  case DType::I64:
  case DType::Index:
    return double(as<int64_t>()[i]);
  case DType::I32:
    return as<int32_t>()[i];
  case DType::I1:
    return as<uint8_t>()[i] != 0;
  }
  return 0;
}

void HostTensor::set(int64_t i, double value) {
  auto saturated = [&](double least, double greatest) {
    return std::isnan(value) ? 0.0 : std::trunc(value) < least ? least : std::trunc(value) > greatest ? greatest : std::trunc(value);
  };
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
  case DType::I64:
  case DType::Index:
    as<int64_t>()[i] = int64_t(saturated(-0x1p63, 0x1p63 - 1024));
    break;
  case DType::I32:
    as<int32_t>()[i] = int32_t(saturated(-0x1p31, 0x1p31 - 1));
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
      tensor.set(i, double(bits >> 33) - 201.0 * std::floor(double(bits >> 33) / 201.0) - 100.0);
    }
  }
}

void fillIota(HostTensor &tensor) {
  for (int64_t i = 0; i < tensor.numElements(); ++i)
    tensor.set(i, double(i));
}

//===- Input words -===//

static bool startsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

static Diagnostic badInput(std::string_view name, std::string message, std::string fix = {}) {
  return {.code = ErrorCode::BadInput, .message = "input '" + std::string(name) + "' " + std::move(message), .fix = std::move(fix)};
}

static bool isGenerated(std::string_view spec) { return spec == "iota" || startsWith(spec, "random") || startsWith(spec, "const:"); }

/// A file or a literal.
static Expected<HostTensor> readInput(std::string_view name, std::string_view spec, DType dtype) {
  bool literal = !spec.empty() && (spec[0] == '[' || spec[0] == '-' || spec[0] == '.' || (spec[0] >= '0' && spec[0] <= '9'));
  auto tensor = literal && spec.find(".npy") == std::string_view::npos ? parseTensorText(spec, dtype)
                                                                       : readNpy(std::filesystem::path(spec), dtype);
  if (tensor)
    return tensor;
  Diagnostics errors = tensor.takeErrors();
  errors.front().message = "input '" + std::string(name) + "': " + errors.front().message;
  return errors;
}

Expected<std::optional<std::vector<int64_t>>> inputShape(std::string_view name, std::string_view spec, DType dtype) {
  if (isGenerated(spec))
    return std::optional<std::vector<int64_t>>();
  auto tensor = readInput(name, spec, dtype);
  if (!tensor)
    return tensor.takeErrors();
  return std::optional(tensor->shape());
}

Expected<HostTensor> makeInput(std::string_view name, std::string_view spec, DType dtype, std::span<const int64_t> shape) {
  if (!isGenerated(spec)) {
    auto tensor = readInput(name, spec, dtype);
    if (!tensor)
      return tensor.takeErrors();
    std::vector<int64_t> expected(shape.begin(), shape.end());
    if (tensor->dtype() != dtype || tensor->shape() != expected)
      return badInput(name, "has shape " + shapeString(tensor->dtype(), tensor->shape()) + ", expected " + shapeString(dtype, shape));
    return tensor;
  }
  if (!HostTensor::checkedBytes(dtype, shape))
    return Diagnostic{.code = ErrorCode::TooLarge, .message = "input '" + std::string(name) + "' of shape " + shapeString(dtype, shape) + " is too large"};
  HostTensor tensor(dtype, {shape.begin(), shape.end()});
  if (spec == "iota") {
    fillIota(tensor);
  } else if (startsWith(spec, "random")) {
    uint64_t seed = 0;
    std::string_view digits = spec.size() > 7 && spec[6] == ':' ? spec.substr(7) : "";
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    if (spec != "random" && (error != std::errc() || end != digits.data() + digits.size()))
      return badInput(name, "has a bad seed in '" + std::string(spec.substr(0, 64)) + "'", "write random:7");
    fillRandom(tensor, seed);
  } else {
    auto value = parseTensorText(spec.substr(6), dtype);
    if (!value || !value->shape().empty())
      return badInput(name, "has a bad constant in '" + std::string(spec.substr(0, 64)) + "'", "write const:1.5");
    for (int64_t i = 0; i < tensor.numElements(); ++i)
      std::memcpy(tensor.bytes().data() + i * dtypeBytes(dtype), value->bytes().data(), size_t(dtypeBytes(dtype)));
  }
  return tensor;
}

} // namespace minic
