// relax-math: replaces functions by cheaper ones that give what the numerics mode asks for.
//
//   %e = exp %z, ranges = [-inf, 0.0] : tile<..xf32>  ->  %e = exp_nonpositive %z      the same bits, in every mode
//   %g = gelu %z : tile<..xbf16>                      ->  %g = gelu_half %z            default and fast; exp, tanh ... alike
//
// What is rounded to 16 bits later, by steps that keep its relative error, is as good as a 16-bit result. Before widen: after it
// nothing tells a 16-bit result from one of 32 bits.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/Precision.h"
#include "minic/Transforms/Passes.h"

namespace minic {

static std::optional<OpKind> formForSixteenBits(OpKind kind) {
  switch (kind) {
  case OpKind::Exp:
    return OpKind::ExpHalf;
  case OpKind::Tanh:
    return OpKind::TanhHalf;
  case OpKind::Sigmoid:
    return OpKind::SigmoidHalf;
  case OpKind::Silu:
    return OpKind::SiluHalf;
  case OpKind::Erf:
    return OpKind::ErfHalf;
  case OpKind::Gelu:
    return OpKind::GeluHalf;
  case OpKind::GeluTanh:
    return OpKind::GeluTanhHalf;
  default:
    return std::nullopt;
  }
}

static std::optional<OpKind> relaxed(const Operation &op, bool exact) {
  if (!op.info().expands)
    return std::nullopt;
  DType dtype = op.result()->type().dtype();
  if (!exact && (isNarrow(dtype) || roundsToHalf(*op.result())))
    if (auto form = formForSixteenBits(op.kind()))
      return form;
  const Attribute *ranges = op.attr("ranges");
  if (op.is(OpKind::Exp) && dtype == DType::F32 && ranges && *(*ranges->asList())[1].asNumber() <= 0)
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
