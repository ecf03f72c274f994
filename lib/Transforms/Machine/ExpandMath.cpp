// expand-math: replaces functions (exp, tanh, ...) by their bodies over primitive operations (lib/IR/Math/*.ir); on whole tiles and
// in combiners.
//
//   %e = exp %z : tile<4x1024xf32, #l>  ->  %k = mul %z, %log2e; %n = sub %k, %shift; %r = fma %n, ...; ... : tile<4x1024xf32, #l>
//
// The last pass over kernels. The interpreter runs the same bodies, so CPU and GPU agree by construction.
#include "minic/IR/Builder.h"
#include "minic/IR/MathLibrary.h"
#include "minic/Transforms/Passes.h"

namespace minic {
namespace {

/// Copies a body of scalars onto `like`'s shape and layout.
Value *inlineBody(Builder &builder, const Function &body, std::span<Value *const> arguments, Type like) {
  ValueMap map;
  for (unsigned i = 0; i < arguments.size(); ++i)
    map.map(body.params()[i], arguments[i]);
  Context &context = builder.context();
  for (Operation &op : body.body()) {
    if (op.info().terminator)
      return map(op.operand(0));
    std::vector<Value *> operands;
    for (Value *operand : op.operands())
      operands.push_back(map(operand));
    std::vector<Type> types = {context.withDType(like, op.result()->type().dtype())};
    Operation *copy = builder.create(op.kind(), operands, types, {op.attrs().begin(), op.attrs().end()});
    map.map(op.result(), copy->result());
  }
  return nullptr;
}

void expand(Block &block) {
  for (Operation &op : block) {
    for (unsigned r = 0; r < op.numRegions(); ++r)
      expand(op.region(r));
    if (!op.info().expands)
      continue;
    Builder builder(&op);
    builder.setLoc(op.loc());
    Type type = op.result()->type();
    Value *value = inlineBody(builder, mathBody(op.kind(), type.dtype()), op.operands(), type);
    value->setName(op.result()->name());
    op.result()->replaceAllUsesWith(value);
    op.erase();
  }
}

} // namespace

Expected<void> passes::expandMath(Function &function, PassContext &) {
  if (function.kind == FunctionKind::Kernel)
    expand(function.body());
  return {};
}

} // namespace minic
