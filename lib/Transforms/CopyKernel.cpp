#include "CopyKernel.h"

#include <algorithm>

namespace minic {

Expected<CopyKernel> makeCopyKernel(Function &plan, Type from, std::span<const Type> to, PassContext &pass,
                                    const MakeCopies &make) {
  Module &module = plan.module();
  Context &context = module.context();
  std::string name = module.freshName(plan.name + "_copy");
  Function *graph = module.addFunction(FunctionKind::Graph, Level::Fused, name, &plan);
  graph->loc = plan.loc;
  graph->facts = plan.facts;
  for (Type type : to)
    graph->resultTypes.push_back(context.withKind(type, TypeKind::Tensor));
  Builder outer(graph->body());
  outer.setLoc(plan.loc);
  Type tensor = context.withKind(from, TypeKind::Tensor);
  Value *x = graph->body().addArgument(tensor, "x");
  Operation *fusion = outer.create(OpKind::Fusion, std::span<Value *const>(&x, 1), graph->resultTypes);
  Builder inner(fusion->addRegion());
  inner.setLoc(plan.loc);
  inner.create(OpKind::Yield, make(inner, inner.insertionBlock().addArgument(tensor, "x")), {});
  for (unsigned i = 0; i < to.size(); ++i) {
    graph->resultNames.push_back(to.size() == 1 ? "y" : "y" + std::to_string(i));
    fusion->result(i)->setName(graph->resultNames.back());
  }
  outer.create(OpKind::Return, std::vector<Value *>(fusion->results().begin(), fusion->results().end()), {});
  for (std::string_view each : {"choose-schedule", "tile"}) {
    PassStep step(findPass(each), Level::Fused);
    PassContext inner = pass;
    inner.step = &step; // Options of the pipeline are for the graph's own regions.
    if (auto done = step.pass->run(*graph, inner); !done)
      return done.takeErrors();
  }
  Function *wrapper = module.find(name);
  CopyKernel result{nullptr, Attribute(0)};
  walk(wrapper->body(), [&](Operation &op) {
    if (op.is(OpKind::Launch))
      result = {module.find(op.attr("kernel")->asSymbol()->name), *op.attr("grid")};
  });
  module.eraseFunction(wrapper);
  return result;
}

Expected<std::vector<Value *>> OperandCopies::add(Function &kernel, Value *buffer, std::span<const Type> to,
                                                  std::string_view suffix, const MakeCopies &make) {
  Form form{std::string(suffix), {buffer->type()}};
  form.types.insert(form.types.end(), to.begin(), to.end());
  if (!kernels.count(form)) {
    auto copy = makeCopyKernel(plan, buffer->type(), to, pass, make);
    if (!copy)
      return copy.takeErrors();
    kernels.emplace(form, *copy);
  }
  KernelSignature signature(kernel);
  unsigned position = signature.positionOf(buffer);
  std::vector<Value *> params;
  for (size_t i = 0; i < to.size(); ++i)
    params.push_back(signature.add(to[i], buffer->name() + form.suffix + (to.size() > 1 ? std::to_string(i) : ""),
                                   [&](Operation &launch) { return copiesFor(launch, launch.operand(position), form)[i]; }));
  return params;
}

/// Kernels are visited one after the other, launches of one are not in a row: a copy may have been made for a later one.
static void makeBefore(Operation &launch, const Value *source, std::span<Value *const> copies) {
  auto isMaker = [&](const Use &use) { return use.user->is(OpKind::Launch) && use.user->operand(0) == source; };
  Operation *maker = std::ranges::find_if(copies.front()->uses(), isMaker)->user;
  bool isLater = false;
  for (const Operation *op = &launch; op && !isLater; op = op->next())
    isLater = op == maker;
  if (!isLater)
    return;
  for (Value *copy : copies)
    copy->definition()->moveBefore(&launch);
  maker->moveBefore(&launch);
}

std::vector<Value *> OperandCopies::copiesFor(Operation &launch, Value *source, const Form &form) {
  std::vector<Value *> &copies = made[{source, form}];
  if (!copies.empty()) {
    makeBefore(launch, source, copies);
    return copies;
  }
  Builder builder(&launch);
  builder.setLoc(launch.loc());
  for (size_t i = 1; i < form.types.size(); ++i) {
    copies.push_back(builder.create(OpKind::Alloc, {}, {form.types[i]})->result());
    copies.back()->setName(source->name() + form.suffix + (form.types.size() > 2 ? std::to_string(i - 1) : ""));
  }
  std::vector<Value *> operands{source};
  operands.insert(operands.end(), copies.begin(), copies.end());
  const CopyKernel &copy = kernels.at(form);
  builder.create(OpKind::Launch, operands, std::vector<Type>(),
                 {{"kernel", Attribute::symbol(copy.kernel->name)}, {"grid", copy.grid}});
  return copies;
}

} // namespace minic
