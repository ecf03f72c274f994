// Element-wise ops in f64 for the oracle.
#pragma once

#include "Lanes.h"

namespace minic::interp {

/// Like evalElementwise, but floats are f64 whatever type the graph gives them: `from` is the graph's element type of the first
/// operand, `to` the result's, and float lanes are f64 in memory. These are written here once more, with the C++ library's
/// functions, so that an error in the op table's forms or in lib/IR/Math shows. An op that is not written here goes by the table.
void evalInF64(OpKind kind, std::string_view predicate, DType from, DType to, std::span<const Lanes> operands, std::byte *out,
               int64_t count);

/// f64 for floats, else the type itself.
inline DType oracleDType(DType dtype) { return isFloat(dtype) ? DType::F64 : dtype; }

} // namespace minic::interp
