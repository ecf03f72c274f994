#include "minic/Driver/Difference.h"

#include <algorithm>
#include <cmath>

namespace minic {

static Tolerance defaultTolerance(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return {1e-10, 1e-12};
  case DType::F32:
    return {1e-5, 2e-6};
  case DType::F16:
    return {1e-2, 1e-3};
  case DType::BF16:
    return {5e-2, 1e-2};
  case DType::F8E4M3: // A unit in the last place, as rounding may fall either way.
    return {0.13, 1e-2};
  case DType::F8E5M2:
    return {0.26, 1e-2};
  default:
    return {0, 0};
  }
}

static std::string elementName(const HostTensor &tensor, int64_t position) {
  std::string text;
  for (size_t axis = tensor.shape().size(); axis-- > 0;) {
    text = std::to_string(position % tensor.shape()[axis]) + (text.empty() ? "" : ", ") + text;
    position /= tensor.shape()[axis];
  }
  return "[" + text + "]";
}

Difference differ(const std::vector<HostTensor> &values, const std::vector<HostTensor> &references,
                  const std::vector<std::string> &names, const Tolerance &asked, std::string_view what,
                  std::string_view yardstick) {
  Difference difference;
  for (size_t r = 0; r < values.size(); ++r) {
    const HostTensor &value = values[r], &reference = references[r];
    Tolerance tolerance = defaultTolerance(value.dtype());
    double scale = 0;
    for (int64_t i = 0; i < reference.numElements(); ++i)
      if (double magnitude = std::fabs(reference.get(i)); std::isfinite(magnitude))
        scale = std::max(scale, magnitude);
    double rtol = asked.rtol >= 0 ? asked.rtol : tolerance.rtol, atol = asked.atol >= 0 ? asked.atol : tolerance.atol * scale;
    difference.sameBits &= value.bytes().size() == reference.bytes().size() &&
                           std::equal(value.bytes().begin(), value.bytes().end(), reference.bytes().begin());
    for (int64_t i = 0; i < reference.numElements(); ++i) {
      double a = value.get(i), b = reference.get(i);
      if (a == b || (std::isnan(a) && std::isnan(b)))
        continue;
      double error = std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : INFINITY;
      difference.largest = std::max(difference.largest, error);
      if (std::isfinite(error) && error <= rtol * std::fabs(b) + atol)
        continue;
      ++difference.beyond;
      if (difference.firstBad.empty())
        difference.firstBad = "output '" + names[r] + "' " + elementName(value, i) + ": " + std::string(what) + " gives " +
                              floatText(a, value.dtype()) + ", " + std::string(yardstick) + " " + floatText(b, value.dtype());
    }
  }
  return difference;
}

} // namespace minic
