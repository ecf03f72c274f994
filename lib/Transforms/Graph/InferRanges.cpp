// infer-ranges: writes down what is proved of the operands of operations that have a cheaper form for some of them.
//
//   %m = reduce max %x, axes = [1]; %z = sub %x, (broadcast %m)
//   %e = exp %z      ->      %e = exp %z, ranges = [-inf, 0.0]
//   %q = div %e, %s  ->      %q = div %e, %s, ranges = [0.0, 1.0, 1.0, 2048.0]      %s the sum of %e along axis 1
//
// In regions, and on graphs before they are fused; what says nothing is left out.
#include "minic/Transforms/Analysis/ValueRange.h"
#include "minic/Transforms/Passes.h"

#include <cmath>

namespace minic {

static bool hasRanges(const Operation &op) { return op.is(OpKind::Exp) || op.is(OpKind::Div); }

Expected<void> passes::inferRanges(Function &function, PassContext &) {
  ValueRanges ranges(function.facts);
  walk(function.body(), [&](Operation &op) {
    if (!hasRanges(op) || !isFloat(op.result()->type().dtype()))
      return;
    AttributeList list;
    bool saysSomething = false;
    for (const Value *operand : op.operands()) {
      ValueRange range = ranges.of(operand);
      list.push_back(range.least);
      list.push_back(range.greatest);
      saysSomething |= !std::isinf(range.least) || !std::isinf(range.greatest);
    }
    if (saysSomething)
      op.setAttr("ranges", Attribute(std::move(list)));
  });
  return {};
}

} // namespace minic
