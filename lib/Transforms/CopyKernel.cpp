#include "CopyKernel.h"

namespace minic {

Expected<CopyKernel> makeCopyKernel(Function &plan, Type from, PassContext &pass,
                                    const std::function<Value *(Builder &, Value *)> &make) {
  Module &module = plan.module();
  Context &context = module.context();
  std::string name = module.freshName(plan.name + "_copy");
  Function *graph = module.addFunction(FunctionKind::Graph, Level::Fused, name, &plan);
  graph->loc = plan.loc;
  graph->resultNames = {"y"};
  graph->facts = plan.facts;
  Builder outer(graph->body());
  outer.setLoc(plan.loc);
  Type tensor = context.withKind(from, TypeKind::Tensor);
  Operation *fusion = outer.create(OpKind::Fusion, {graph->body().addArgument(tensor, "x")}, {tensor});
  Builder inner(fusion->addRegion());
  inner.setLoc(plan.loc);
  Value *made = make(inner, inner.insertionBlock().addArgument(tensor, "x"));
  inner.create(OpKind::Yield, {made}, {});
  fusion->result()->setType(made->type());
  fusion->result()->setName("y");
  graph->resultTypes = {made->type()};
  outer.create(OpKind::Return, {fusion->result()}, {});
  for (auto run : {passes::chooseSchedule, passes::tile})
    if (auto done = run(*graph, pass); !done)
      return done.takeErrors();
  Function *copy = module.find(name);
  CopyKernel result{nullptr, Attribute(0)};
  walk(copy->body(), [&](Operation &op) {
    if (op.is(OpKind::Launch))
      result = {module.find(op.attr("kernel")->asSymbol()->name), *op.attr("grid")};
  });
  module.eraseFunction(copy);
  return result;
}

} // namespace minic
