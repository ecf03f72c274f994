#include "minic/IR/Combiner.h"

#include "minic/IR/IR.h"

#include <limits>

namespace minic {

OpKind combinerKind(std::string_view word) { return word == "max" ? OpKind::Max : word == "min" ? OpKind::Min : OpKind::Add; }

Attribute reductionIdentity(std::string_view word, DType dtype) {
  bool max = word == "max", extreme = max || word == "min";
  if (isFloat(dtype)) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    return extreme ? (max ? -inf : inf) : 0.0;
  }
  auto [least, greatest] = integerRange(dtype);
  return extreme ? (max ? least : greatest) : int64_t(0);
}

} // namespace minic
