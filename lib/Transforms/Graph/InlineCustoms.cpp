// inline-customs: puts the bodies of custom ops without a kernel in their place.
//
//   custom @twice(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) { %y = add %x, %x; return %y }
//
//   %b = custom @twice(%a) : tensor<8xf32>  ->  %b = add %a, %a : tensor<8xf32>
//
// What custom ops stand in a body goes the same way. One that names a kernel stays: `tile` makes a launch of it.
#include "minic/IR/Builder.h"
#include "minic/IR/CustomOp.h"
#include "minic/IR/Verifier.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>

namespace minic {
namespace {

/// The declaration for the sizes of a use. A graph that is right for sizes that are names need not be so for all: of two names, one
/// may be less than the other.
Expected<Function *> withSizesOf(const Operation &use) {
  Function &custom = *customOf(use);
  std::vector<Type> types;
  for (const Value *operand : use.operands())
    types.push_back(operand->type());
  auto sizes = unifySizes(custom, types);
  if (!sizes) {
    Diagnostic error = sizes.errors().front();
    error.loc = use.loc();
    return error;
  }
  Function *copy = cloneFunction(custom, use.module().freshName(custom.name));
  copy->kind = FunctionKind::Graph; // Its sizes are those of the graph.
  replaceSizes(*copy, *sizes);
  return copy;
}

} // namespace

Expected<void> passes::inlineCustoms(Function &graph, PassContext &) {
  Module &module = graph.module();
  for (Operation *op = graph.body().front(), *next; op; op = next) {
    next = op->next();
    if (!op->is(OpKind::Custom) || kernelOf(*customOf(*op)))
      continue;
    auto body = withSizesOf(*op);
    if (!body)
      return body.takeErrors();
    Diagnostics findings = verify(**body);
    module.eraseFunction(*body);
    if (hasErrors(findings)) {
      Diagnostic error{.code = findings.front().code,
                       .message = "the body of @" + customOf(*op)->name +
                                  " does not hold for the sizes of this use: " + findings.front().message,
                       .loc = op->loc()};
      error.note("in the body", findings.front().loc);
      return error;
    }
    Builder builder(op);
    ValueMap map;
    Operation *before = op->prev();
    std::vector<Value *> results = inlineBlock(builder, (*body)->body(), op->operands(), map);
    for (unsigned i = 0; i < op->numResults(); ++i) {
      if (std::ranges::find(op->operands(), results[i]) == op->operands().end())
        results[i]->setName(op->result(i)->name());
      op->result(i)->replaceAllUsesWith(results[i]);
    }
    op->erase();
    next = before ? before->next() : graph.body().front(); // Custom ops of the body come next.
  }
  return {};
}

} // namespace minic
