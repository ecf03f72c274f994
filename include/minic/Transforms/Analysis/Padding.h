// What the padded lanes of tiles hold: the proof behind masked reductions.
//
// Along a masked axis, lanes past the edge of the tensor are padding: masked loads put `fill` there, arithmetic carries it on by
// the `padding` column of the op rows. A reduction along the axis is right if its padding is proved to be the identity of its
// combiner.
#pragma once

#include "minic/IR/ScalarEval.h"
#include "minic/IR/Verifier.h"

namespace minic {

/// The padding of one value along one tile axis.
struct PaddingFact {
  enum Kind : uint8_t {
    None,  ///< No lane is padding: every access along the axis is proved in bounds.
    Known, ///< Every padded lane holds `value`, an element of the value's type.
    Unknown,
  } kind = Unknown;
  Scalar value = {};
  friend bool operator==(const PaddingFact &, const PaddingFact &) = default;
};

/// The padding along `axis`, from the masks and fills that stand in the IR.
PaddingFact paddingOf(const Value *value, int64_t axis);

/// True if the padding of every operand along every contracted axis is the identity (reduce), or is zero on both sides (dot).
bool paddingIsNeutral(const Operation &op);

/// The check of the masked level: every access masked or proved in bounds (UnprovedAccess), every reduction's padding neutral
/// (UnprovedPadding) unless it says `padding = unchecked`.
void verifyMasked(Function &function, VerifyReporter &reporter);

} // namespace minic
