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

unsigned KernelSignature::positionOf(const Value *param) const {
  return unsigned(std::ranges::find(kernel.params(), param) - kernel.params().begin());
}

Value *KernelSignature::add(Type type, const std::string &name, const std::function<Value *(Operation &)> &argument) {
  forEachLaunch([&](Operation &launch) {
    std::vector<Value *> arguments(launch.operands().begin(), launch.operands().end());
    arguments.push_back(argument(launch));
    launch.setOperands(arguments);
  });
  return kernel.body().addArgument(type, name);
}

Value *KernelSignature::addTensorMap(Value *buffer, Type type) {
  return add(type, buffer->name() + "_map", [&](Operation &launch) {
    Value *memory = launch.operand(positionOf(buffer));
    Builder plan(&launch);
    plan.setLoc(launch.loc());
    Value *map = plan.create(OpKind::TensorMap, {memory}, {type})->result();
    map->setName(memory->name() + "_map");
    return map;
  });
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
