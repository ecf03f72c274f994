// The host forms of the element-wise ops: the folder and the interpreter compute through these, so they agree.
#pragma once

#include "minic/IR/IR.h"

#include <bit>
#include <span>

namespace minic {

/// One element of any type, held as the bits of its type (floats in the low bits, integers sign-extended, i1 as 0 or 1).
struct Scalar {
  uint64_t bits = 0;
  static Scalar of(const Attribute &number, DType t); ///< The element that a number of an attribute stands for.
  static Scalar of(double value, DType t);            ///< Rounds once; integers must fit.
  double toDouble(DType t) const;                     ///< Exact up to 53 bits.
  Attribute toAttr(DType t) const;                    ///< The number as an attribute of an op of this type.
  friend bool operator==(const Scalar &, const Scalar &) = default;
};

/// Lanes in a plain array of `dtypeBytes(dtype)` bytes each (index and i64: 8, i1: 1).
struct Lanes {
  DType dtype;
  const std::byte *data;
  bool splat = false; ///< One element stands for all.
};

/// Applies element-wise op `op` to `count` lanes. `out` has room for `count` elements of `resultType`. Functions with a body in IR
/// run that. Narrow types are computed in `computeDType` and converted once, as `widen` has kernels do.
void evalElementwise(const Operation &op, std::span<const Lanes> operands, DType resultType, std::byte *out, int64_t count);
/// The same without an operation; `predicate` is compare's word.
void evalElementwise(OpKind kind, std::string_view predicate, std::span<const Lanes> operands, DType resultType, std::byte *out,
                     int64_t count);
Scalar evalScalar(OpKind kind, std::string_view predicate, std::span<const Scalar> operands, DType operandType, DType resultType);

/// Conversion by the rules of the `convert` row.
Scalar convertScalar(Scalar value, DType from, DType to);

} // namespace minic
