#include "minic/Driver/CustomUses.h"

#include "minic/IR/Builder.h"
#include "minic/IR/CustomOp.h"
#include "minic/IR/Printer.h"
#include "minic/IR/PtxText.h"

#include <algorithm>

namespace minic {

void copyCustoms(const Module &from, Module &to) {
  for (const Function *function : from.functions()) {
    if (function->kind != FunctionKind::Custom)
      continue;
    copyFunction(*function, to, function->name);
    if (const Function *kernel = kernelOf(*function); kernel && !to.find(kernel->name))
      copyFunction(*kernel, to, kernel->name);
  }
}

/// graph @use_of_f(%x0: T, ...) -> (...) { custom @f }, with the declarations.
static std::string alone(const Operation &use) {
  const Module &from = use.module();
  Module module(from.context());
  module.target = from.target;
  module.numerics = from.numerics;
  copyCustoms(from, module);
  Function &graph = *module.addFunction(FunctionKind::Graph, Level::Graph, module.freshName("use_of_" + customOf(use)->name));
  graph.resultNames = customOf(use)->resultNames;
  Builder builder(graph.body());
  ValueMap map;
  for (unsigned i = 0; i < use.numOperands(); ++i)
    if (!map.contains(use.operand(i)))
      map.map(use.operand(i), graph.body().addArgument(use.operand(i)->type(), "x" + std::to_string(i)));
  Operation *copy = cloneOperation(builder, use, map);
  for (const Value *result : copy->results())
    graph.resultTypes.push_back(result->type());
  builder.create(OpKind::Return, copy->results(), {});
  return printModule(module);
}

std::vector<CustomUse> customUses(const Function &fused) {
  std::vector<CustomUse> uses;
  for (const Operation &op : fused.body()) {
    if (!op.is(OpKind::Custom))
      continue;
    const Function &kernel = *kernelOf(*customOf(op));
    const Operation *ptx = ptxOf(kernel);
    CustomUse use{.op = customOf(op)->name,
                  .kernel = kernel.name,
                  .ptxTarget = ptx ? ptxTarget(ptx->attr("text")->asString()->text) : "",
                  .loc = op.loc(),
                  .text = alone(op)};
    if (std::ranges::none_of(uses, [&](const CustomUse &other) { return other.text == use.text; }))
      uses.push_back(std::move(use));
  }
  return uses;
}

Expected<std::vector<CustomUse>> customUses(const SourceBuffer &source, const CompileOptions &options) {
  Context context;
  auto module = loadModule(context, source, options);
  if (!module)
    return module.takeErrors();
  if (auto kept = keepOnly(**module, options.graph); !kept)
    return kept.takeErrors();
  if (auto lowered = lowerTo(**module, Stage::Fused, options); !lowered)
    return lowered.takeErrors();
  auto graph = chooseGraph(**module, options.graph);
  if (!graph)
    return graph.takeErrors();
  return customUses(**graph);
}

} // namespace minic
