#include "KernelSignature.h"

#include "minic/IR/Builder.h"

#include <algorithm>

namespace minic {

template <typename Visit> void KernelSignature::forEachLaunch(Visit &&visit) {
  for (Function *function : kernel.module().functions())
    if (function->kind == FunctionKind::Plan)
      walk(function->body(), [&](Operation &op) {
        if (op.is(OpKind::Launch) && op.attr("kernel")->asSymbol()->name == kernel.name)
          visit(op);
      });
}

Value *KernelSignature::addTensorMap(Value *buffer, Type type) {
  size_t position = size_t(std::ranges::find(kernel.params(), buffer) - kernel.params().begin());
  forEachLaunch([&](Operation &launch) {
    Value *memory = launch.operand(unsigned(position));
    Builder plan(&launch);
    plan.setLoc(launch.loc());
    Value *map = plan.create(OpKind::TensorMap, {memory}, {type})->result();
    map->setName(memory->name() + "_map");
    std::vector<Value *> arguments(launch.operands().begin(), launch.operands().end());
    arguments.push_back(map);
    launch.setOperands(arguments);
  });
  return kernel.body().addArgument(type, buffer->name() + "_map");
}

void KernelSignature::dropUnused() {
  for (size_t i = kernel.params().size(); i-- > 0;) {
    if (!kernel.params()[i]->uses().empty())
      continue;
    kernel.body().eraseArgument(unsigned(i));
    forEachLaunch([&](Operation &launch) {
      std::vector<Value *> arguments(launch.operands().begin(), launch.operands().end());
      arguments.erase(arguments.begin() + std::ptrdiff_t(i));
      launch.setOperands(arguments);
    });
  }
}

void KernelSignature::setGrid(std::span<const DimExpr> grid) {
  forEachLaunch([&](Operation &launch) { launch.setAttr("grid", Attribute::dims({grid.begin(), grid.end()})); });
}

} // namespace minic
