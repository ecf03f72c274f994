// The built-in combiners of `reduce`.
#pragma once

#include "minic/IR/Attribute.h"
#include "minic/IR/OpKind.h"

namespace minic {

/// `sum` -> add, `max` -> max, `min` -> min.
OpKind combinerKind(std::string_view word);
/// The number that the combiner keeps: +0.0, -inf or the least integer, +inf or the greatest integer of the type.
Attribute reductionIdentity(std::string_view word, DType dtype);

} // namespace minic
