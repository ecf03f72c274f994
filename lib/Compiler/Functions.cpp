// Which function of a module is meant.
#include "minic/Compiler/Compiler.h"

#include "minic/IR/CustomOp.h"

#include <algorithm>
#include <functional>
#include <set>

namespace minic {

/// Functions that stand behind others.
static std::set<const Function *> standingBehind(const Module &module) {
  std::set<const Function *> behind;
  for (const Function *function : module.functions())
    behind.insert(function->otherwise());
  return behind;
}

/// The function called `name`, or, if that is empty, the only one that `wanted` accepts; null if there is none of that kind.
static Expected<Function *> pick(Module &module, const std::string &name, std::string_view what,
                                 const std::function<bool(const Function &)> &wanted) {
  std::vector<Function *> found;
  std::vector<std::string> names;
  std::set<const Function *> behind = standingBehind(module);
  for (Function *function : module.functions())
    if (wanted(*function) && !behind.contains(function)) {
      found.push_back(function);
      names.push_back(function->name);
    }
  std::string list;
  for (const std::string &other : names)
    list += (list.empty() ? "" : ", ") + other;
  if (!name.empty()) {
    for (Function *function : found)
      if (function->name == name)
        return function;
    std::string near = didYouMean(name, names);
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "--graph=" + name + ": the file has no " + std::string(what) + " of this name",
                      .fix = !near.empty()  ? "did you mean " + near + "?"
                             : list.empty() ? ""
                                            : "its names are " + list};
  }
  if (found.size() > 1)
    return Diagnostic{.code = ErrorCode::UnknownFunction,
                      .message = "the file has several functions that could be meant: " + list,
                      .fix = "pick one with --graph=NAME"};
  return found.empty() ? nullptr : found[0];
}

static Diagnostic nothing(std::string_view what) {
  return {
      .code = ErrorCode::NothingToCompile, .message = "the file has no " + std::string(what), .fix = "write a `graph @name(...)`"};
}

Expected<Function *> chooseFunction(Module &module, const std::string &name) {
  if (!name.empty())
    return pick(module, name, "graph or plan", [](const Function &function) {
      return function.kind == FunctionKind::Graph || function.kind == FunctionKind::Plan;
    });
  auto plan = pick(module, name, "plan", [](const Function &function) { return function.kind == FunctionKind::Plan; });
  if (!plan || *plan)
    return plan;
  auto graph = pick(module, name, "graph", [](const Function &function) { return function.kind == FunctionKind::Graph; });
  if (graph && !*graph)
    return nothing("graph and no plan");
  return graph;
}

Expected<Function *> chooseGraph(Module &module, const std::string &name) {
  auto graph = pick(module, name, "graph", [](const Function &function) { return function.kind == FunctionKind::Graph; });
  if (graph && !*graph)
    return nothing("graph");
  return graph;
}

std::vector<Function *> withThoseBehind(Function &first) {
  std::vector<Function *> chain;
  for (Function *function = &first; function; function = function->otherwise())
    chain.push_back(function);
  return chain;
}

Expected<void> keepOnly(Module &module, const std::string &name) {
  auto chosen = chooseFunction(module, name);
  if (!chosen)
    return chosen.takeErrors();
  std::set<const Function *> kept;
  std::vector<const Function *> waiting;
  auto keep = [&](const Function *function) {
    if (function && kept.insert(function).second)
      waiting.push_back(function);
  };
  for (Function *function : withThoseBehind(**chosen))
    keep(function);
  while (!waiting.empty()) {
    const Function *function = waiting.back();
    waiting.pop_back();
    if (function->kind == FunctionKind::Custom)
      keep(kernelOf(*function));
    walk(function->body(), [&](Operation &op) {
      if (op.is(OpKind::Launch))
        keep(module.find(op.attr("kernel")->asSymbol()->name));
      else if (op.is(OpKind::Custom) || op.is(OpKind::Ptx))
        keep(customOf(op));
    });
  }
  std::vector<Function *> functions(module.functions().begin(), module.functions().end());
  for (Function *function : functions)
    if (!kept.contains(function))
      module.eraseFunction(function);
  return {};
}

} // namespace minic
