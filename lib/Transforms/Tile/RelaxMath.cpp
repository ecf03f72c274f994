// relax-math: replaces functions by cheaper ones that give what the numerics mode asks for.
//
//   %e = exp %z, ranges = [-inf, 0.0] : tile<..xf32>  ->  %e = exp_nonpositive %z      the same bits, in every mode
//   %e = exp %z : tile<..xbf16>                       ->  %e = exp_half %z             default and fast
//
// Before widen: after it nothing tells a 16-bit result from one of 32 bits.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/Precision.h"
#include "minic/Transforms/Passes.h"

namespace minic {

static std::optional<OpKind> relaxed(const Operation &op, bool exact) {
  if (!op.is(OpKind::Exp))
    return std::nullopt;
  DType dtype = op.result()->type().dtype();
  if (!exact && (isNarrow(dtype) || roundsToHalf(*op.result())))
    return OpKind::ExpHalf;
  const Attribute *ranges = op.attr("ranges");
  if (dtype == DType::F32 && ranges && *(*ranges->asList())[1].asNumber() <= 0)
    return OpKind::ExpNonpositive;
  return std::nullopt;
}

Expected<void> passes::relaxMath(Function &function, PassContext &context) {
  walk(function.body(), [&](Operation &op) {
    auto kind = relaxed(op, context.exact());
    if (!kind)
      return;
    Builder builder(&op);
    builder.setLoc(op.loc());
    Operation *cheaper = builder.create(*kind, op.operands(), std::vector<Type>{op.result()->type()});
    cheaper->result()->setName(op.result()->name());
    op.result()->replaceAllUsesWith(cheaper->result());
    op.erase();
  });
  return {};
}

} // namespace minic
