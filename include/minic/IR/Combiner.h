// The built-in combiners of `reduce`.
#pragma once

#include "minic/IR/OpKind.h"

namespace minic {

/// `sum` -> add, `max` -> max, `min` -> min.
OpKind combinerKind(std::string_view word);
/// The value that the combiner keeps: +0.0, -inf or the least integer, +inf or the greatest integer.
double reductionIdentity(std::string_view word, DType dtype);

} // namespace minic
