#include "minic/IR/Combiner.h"

#include "minic/IR/IR.h"

#include <limits>

namespace minic {

OpKind combinerKind(std::string_view word) { return word == "max" ? OpKind::Max : word == "min" ? OpKind::Min : OpKind::Add; }

double reductionIdentity(std::string_view word, DType dtype) {
  if (word != "max" && word != "min")
    return 0.0;
  double least = isFloat(dtype) ? -std::numeric_limits<double>::infinity() : double(std::numeric_limits<int32_t>::min());
  double greatest = isFloat(dtype) ? std::numeric_limits<double>::infinity() : double(std::numeric_limits<int32_t>::max());
  return word == "max" ? least : greatest;
}

} // namespace minic
